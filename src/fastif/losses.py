"""Losses of one number for each example, and the measures of a query whose change is asked for.

A loss is a function `(outputs, targets) -> (batch,)`. Torch's own are known by name and averaged over all dimensions
but the first; over classes, over the positions that have a target. This file knows outputs and targets, and no model.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F  # torch's own abbreviation
from torch import Tensor

from fastif.errors import ConfigurationError, LabelError, LossError

PerExample = Callable[[Tensor, Tensor], Tensor]

CLASS_LOSSES = ("cross_entropy", "nll_loss")
PROBABILITY_LOSSES = ("binary_cross_entropy", "binary_cross_entropy_with_logits")
ELEMENTWISE_LOSSES = (*PROBABILITY_LOSSES, "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "poisson_nll_loss")
IGNORED_CLASS = -100  # torch's mark for a position that has no target


class NamedLoss:
    r"""One of torch's losses, `F.<name>(..., reduction="none")`, averaged over the dimensions other than the batch.

    Of an example of whose positions n have another class than -100, a class loss is $\frac1n \sum_t \ell_t$, and zero
    where n is: what a batch is padded with changes no example's loss. It is what torch's `reduction="mean"` gives for
    that example alone. Classes have no weights here; for such pass a function, which says what it divides by.

    >>> NamedLoss("mse_loss")(torch.tensor([[1.0, 2.0], [3.0, 3.0]]), torch.tensor([[1.0, 0.0], [3.0, 3.0]]))
    tensor([2., 0.])
    >>> NamedLoss("nll_loss")(torch.tensor([[[-1.0, -2.0, -9.0]]]), torch.tensor([[0, 0, -100]]))
    tensor([1.5000])
    """

    def __init__(self, name: str) -> None:
        if name not in (*CLASS_LOSSES, *ELEMENTWISE_LOSSES):
            raise ConfigurationError(
                f"there is no loss '{name}' here. Known are {', '.join((*CLASS_LOSSES, *ELEMENTWISE_LOSSES))}; for any "
                "other pass a function (outputs, targets) -> (batch,)."
            )
        self.name = name
        self._function: Callable[..., Tensor] = getattr(F, name)

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return one loss for each example."""
        if self.name in ELEMENTWISE_LOSSES and outputs.shape != targets.shape:
            # torch would broadcast (batch, 1) against (batch,) to (batch, batch) and mix the examples
            if outputs.shape[0] != targets.shape[0] or _without_ones(outputs) != _without_ones(targets):
                raise LossError(
                    f"{self.name} needs outputs and targets of one shape; seen were {tuple(outputs.shape)} and "
                    f"{tuple(targets.shape)}."
                )
            targets = targets.reshape(outputs.shape)
        losses = self._function(outputs, targets, reduction="none")
        if losses.ndim == 1:
            return losses
        if self.name in CLASS_LOSSES and not targets.is_floating_point():
            counted = (targets != IGNORED_CLASS).flatten(1).sum(dim=1)
            return losses.flatten(1).sum(dim=1) / counted.clamp_min(1)
        return losses.flatten(1).mean(dim=1)

    def prepare_targets(self, targets: Tensor, dtype: torch.dtype) -> Tensor:
        """Give targets the dtype that this loss wants."""
        if self.name in CLASS_LOSSES:
            return targets.to(dtype if targets.is_floating_point() else torch.int64)
        return targets.to(dtype)

    def check_targets(self, targets: Tensor, classes: int, ids: Tensor, source: str) -> None:
        """Raise `LabelError` for a target that this loss cannot take from outputs with so many classes."""
        if self.name in CLASS_LOSSES and targets.is_floating_point():
            if self.name == "cross_entropy" and targets.ndim > 1 and targets.shape[1] == classes:
                return  # a distribution over the classes
            raise LabelError(
                f"the targets of {source} are of type {targets.dtype}, but {self.name} needs the number of a class. "
                "Convert them with targets.long(), or choose a loss for regression such as 'mse_loss'."
            )
        if self.name in CLASS_LOSSES:
            wrong = ((targets < 0) & (targets != IGNORED_CLASS)) | (targets >= classes)
            allowed = f"0 to {classes - 1}, as the model has {classes} outputs in dimension 1"
        elif self.name in PROBABILITY_LOSSES:
            wrong = (targets < 0) | (targets > 1)
            allowed = "0 to 1"
        else:
            return
        if wrong.any():
            row, *rest = wrong.nonzero()[0].tolist()
            raise LabelError(
                f"example {int(ids[row])} of {source} has the label {targets[(row, *rest)].item():g}, outside the "
                f"range {allowed}. Check how labels are numbered."
            )


def _without_ones(tensor: Tensor) -> list[int]:
    """Return the shape after the first dimension, without those of size one."""
    return [size for size in tensor.shape[1:] if size != 1]


def resolve_loss(loss: str | PerExample) -> PerExample:
    """Return the loss of that name, or the function itself."""
    if isinstance(loss, str):
        return NamedLoss(loss)
    if not callable(loss):
        raise ConfigurationError(f"loss must be a name or a function (outputs, targets) -> (batch,), not {loss!r}.")
    return loss


def resolve_measure(measure: str | PerExample, loss: PerExample) -> PerExample:
    """Return what is asked of a query: its loss, its margin, or any function of outputs and targets."""
    if measure == "loss":
        return loss
    if measure == "margin":
        return negative_margin
    if isinstance(measure, str) or not callable(measure):
        raise ConfigurationError(
            f"measure must be 'loss', 'margin' or a function (outputs, targets) -> (batch,), not {measure!r}."
        )
    return measure


def measure_name(measure: str | PerExample) -> str:
    """Return a measure in words; what is named falls when the prediction gets better."""
    if measure == "margin":
        return "negative margin"
    return measure if isinstance(measure, str) else getattr(measure, "__name__", "measure")


def negative_margin(outputs: Tensor, targets: Tensor) -> Tensor:
    r"""Return minus the margin of the target's class, $\log\sum_{k \ne y} e^{z_k} - z_y$.

    The minus keeps the convention of signs: like a loss, the measure falls when the prediction gets better, so that a
    negative influence helps. With one output for each example (two classes, a logit) it is $(1 - 2y) z$.

    >>> negative_margin(torch.tensor([[3.0, 1.0]]), torch.tensor([0]))
    tensor([-2.])
    """
    if outputs.ndim == 1 or (outputs.ndim == 2 and outputs.shape[1] == 1):
        logits = outputs.flatten()
        return (1 - 2 * targets.flatten().to(logits)) * logits
    if outputs.ndim != 2 or targets.ndim != 1 or targets.is_floating_point():
        raise LossError(
            "measure='margin' needs outputs of shape (batch, classes) and one class number for each example; seen were "
            f"outputs {tuple(outputs.shape)} and targets {tuple(targets.shape)} of {targets.dtype}. Use measure='loss'."
        )
    chosen = torch.nn.functional.one_hot(targets, outputs.shape[1]).bool()
    others = outputs.masked_fill(chosen, -torch.inf)
    return others.logsumexp(dim=1) - outputs.gather(1, targets[:, None]).squeeze(1)
