r"""What a model would say of a training example had it not been trained on it, for every example in one pass.

The objective is $\frac1n\sum_i \ell_i$ with curvature $A = H + \lambda I$. Without example i its slope at the present
weights is $-\frac1n J^\top r$ and its curvature $A - \frac1n J^\top \Lambda J$, where J is the Jacobian of the outputs
of i, and r and $\Lambda$ are the first and second derivative of $\ell_i$ in them. One Newton step from there changes
the outputs of i by

$$\Delta = \frac1n K \Big(I - \frac1n \Lambda K\Big)^{-1} r, \qquad K = J A^{-1} J^\top,$$

exactly what retraining gives for least squares. $\Lambda K / n$ is the leverage of the example; without it this is
influence of the first order, which understates the change. Self-influence is $r^\top K r$.

H comes as eigenvectors. What the curvature has of example i is taken out where it is: within the eigenvectors, and only
if i is among the examples that H is the mean over. Outside of them H counts as zero, so that K is overstated there, as
self-influence is (self_influence.py); the matrix without i stays positive definite in both parts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fastif import vectors
from fastif.batch import Batch
from fastif.curvature import CurvatureOperator
from fastif.data import Examples
from fastif.derivatives import output_products
from fastif.jacobian import CHECKED_EXAMPLES, Jacobian
from fastif.keeping import Tensors
from fastif.losses import IGNORED_CLASS
from fastif.model import Model
from fastif.progress import Progress, silent
from fastif.solvers import Identity, PreparedSolver
from fastif.solvers.eigen import EigenSystem

MOST_OUTPUTS = 30  # up to so many, all outputs of an example may change; of more, those with the steepest loss
STEEPEST = 8
MOST_LEVERAGE = 0.999  # of a convex loss with Gauss-Newton curvature it is below 1; with others it need not be


@dataclass(frozen=True)
class LeftOut:
    """Some examples, each with the outputs that it would have had the model not been trained on it.

    Those of a softmax over classes, `outputs_without`, are right up to a number that is added to all of an example,
    which changes neither its loss nor its probabilities.
    """

    batch: Batch
    outputs: Tensor
    losses: Tensor
    outputs_without: Tensor
    losses_without: Tensor
    self_influence: Tensor
    self_influence_error: Tensor
    leverage: Tensor

    def everything(self) -> Tensors:
        """Return all numbers, by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}


class LeaveOneOut:
    """Leaves training examples out, one at a time.

    Args:
        model: the model, at the weights that it was trained to.
        system: the eigenvectors of H.
        damping: lambda.
        share: 1/n, what one example is of the objective.
        few: some placed examples, to see how gradients are best taken.
    """

    def __init__(self, model: Model, system: EigenSystem, *, damping: float, share: float, few: Batch) -> None:
        system.check_definite(damping)
        self.model, self.system, self.damping, self.share = model, system, damping, share
        self._jacobian = Jacobian(model, few)
        self._outside = 1 / (system.rest + damping) if system.has_rest else 0.0
        weakest = float(system.values.min()) if len(system.values) else system.rest
        self._slack = max(0.0, self._outside - 1 / (weakest + damping)) if system.has_rest else 0.0
        outputs = model.outputs(model.parameters, few.inputs)
        self.outputs = outputs.numel() // len(outputs)
        self._contrasts = model.loss_is_softmax and outputs.ndim == 2 and outputs.shape[1] > 1

    @property
    def examples_at_once(self) -> int:
        """How many examples' Jacobian rows the budget holds."""
        rows = self.outputs - self._contrasts if self.outputs <= MOST_OUTPUTS else STEEPEST + 1
        return max(1, self._jacobian.examples_at_once // max(1, rows))

    def __call__(self, batch: Batch, weights: Tensor) -> LeftOut:
        """Leave out each example of a placed batch; weights are what the example is of the mean that H is."""
        point = self._jacobian.at(batch)
        outputs = point.outputs.detach()
        losses, slopes = self._slopes(outputs, batch)
        directions = self._directions(slopes)
        bends = self._bends(outputs, batch, directions)
        rows = torch.stack(
            [vectors.flatten(point.rows(column)).to(self.system.basis) for column in directions.unbind(dim=2)], dim=1
        )
        inside, outside = self._products(rows)
        slope = _times(directions.mT, slopes)
        step, leverage = _without_own_curvature(inside, bends * weights.to(bends)[:, None, None], slope)
        step = self.share * (step + _times(outside * self._outside, slope))
        without = (outputs.double().reshape(len(outputs), -1) + _times(directions, step)).to(outputs).view_as(outputs)
        rest = _inner(slope, _times(outside, slope)).clamp_min(0)
        return LeftOut(
            batch,
            outputs,
            losses,
            without,
            self._losses_without(losses, without, batch, _expanded(losses, slope, bends, step)),
            (_inner(slope, _times(inside, slope)).clamp_min(0) + rest * self._outside).to(losses),
            (rest * self._slack).to(losses),
            leverage.to(losses),
        )

    def _slopes(self, outputs: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the losses, and r in float64, (batch, outputs)."""
        leaf = outputs.detach().requires_grad_()
        with torch.enable_grad():
            losses = self.model.losses(leaf, batch.targets)
        slopes = torch.autograd.grad(losses.sum(), leaf, materialize_grads=True, allow_unused=True)[0]
        return losses.detach(), slopes.double().reshape(len(outputs), -1)

    def _directions(self, slopes: Tensor) -> Tensor:
        """Return orthonormal directions of the outputs in which they may change, (batch, outputs, directions).

        A softmax does not see a change of all outputs alike, so that it needs one direction less. Where there are too
        many outputs: the slope itself, and the outputs in which it is steepest, which are the label's own and those of
        the most probable classes.
        """
        count = slopes.shape[1]
        if count <= MOST_OUTPUTS:
            identity = torch.eye(count, dtype=slopes.dtype, device=slopes.device)
            if self._contrasts:  # orthonormal, and orthogonal to (1, ..., 1)
                identity = torch.linalg.qr(identity - 1 / count)[0][:, :-1]
            return identity.expand(len(slopes), -1, -1)
        size = slopes.norm(dim=1, keepdim=True)
        unit = slopes / torch.where(size > 0, size, 1)
        steepest = slopes.abs().topk(STEEPEST, dim=1).indices
        chosen = torch.nn.functional.one_hot(steepest, count).to(slopes).mT
        basis: Tensor = torch.linalg.qr(torch.cat([unit[:, :, None], chosen], dim=2))[0]
        return basis

    def _bends(self, outputs: Tensor, batch: Batch, directions: Tensor) -> Tensor:
        r"""Return $\Lambda$ in these directions, in float64."""
        moved = directions.permute(2, 0, 1).to(outputs)
        bent = output_products(self.model, outputs, batch, moved).double()
        bends = torch.einsum("bck,lbc->bkl", directions, bent)
        return (bends + bends.mT) / 2

    def _products(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return K within the eigenvectors, and the products of what the rows have outside of them, in float64."""
        parts = rows @ self.system.basis
        weighted = parts / (self.system.values + self.damping)
        inside = (weighted @ parts.mT).double()
        outside = (rows @ rows.mT - parts @ parts.mT).double() if self.system.has_rest else torch.zeros_like(inside)
        return inside, _positive(outside)

    def _losses_without(self, losses: Tensor, without: Tensor, batch: Batch, expanded: Tensor) -> Tensor:
        """Return the loss at the new outputs; by its expansion where it is not defined there, as for probabilities."""
        try:
            seen = self.model.losses(without, batch.targets).detach()
        except RuntimeError:
            return expanded.to(losses)
        return torch.where(torch.isfinite(seen), seen, expanded.to(losses))


def left_out(
    leave: LeaveOneOut,
    data: Examples,
    *,
    ids: Tensor,
    weights: Tensor,
    summarise: Callable[[LeftOut], Tensors] = LeftOut.everything,
    batch_size: int = 64,
    progress: Progress = silent,
) -> Tensors:
    """Leave out each of some examples, and return what is wanted of it, in the order of the ids, on the CPU."""
    order = data.by_length(ids)
    kept: list[Tensors] = []
    done = 0
    for batch in data.batches(batch_size, ids[order], most=leave.examples_at_once):
        progress("leaving out", done, len(ids))
        told = summarise(leave(leave.model.place(batch), weights[batch.ids]))
        kept.append({name: value.cpu() for name, value in told.items()})
        done += len(batch)
    progress("leaving out", done, len(ids))
    back = order.argsort()
    return {name: tensor[back] for name, tensor in joined(kept).items()}


def joined(parts: Sequence[Tensors]) -> Tensors:
    """Return the numbers of all examples, one part after another.

    Outputs of unequal lengths are brought to the longest: with NaN where an example has none.

    >>> joined([{"outputs": torch.tensor([[1.0, 2.0]])}, {"outputs": torch.tensor([[3.0]])}])["outputs"].tolist()
    [[1.0, 2.0], [3.0, nan]]
    """
    return {name: _padded([part[name] for part in parts]) for name in parts[0]}


def _padded(tensors: list[Tensor]) -> Tensor:
    sizes = [max(each) for each in zip(*(tensor.shape[1:] for tensor in tensors), strict=True)]
    fill = torch.nan if tensors[0].is_floating_point() else IGNORED_CLASS

    def to_size(tensor: Tensor) -> Tensor:
        missing = [size - seen for size, seen in zip(sizes, tensor.shape[1:], strict=True)]
        return torch.nn.functional.pad(tensor, [more for each in reversed(missing) for more in (0, each)], value=fill)

    return torch.cat([to_size(tensor) if list(tensor.shape[1:]) != sizes else tensor for tensor in tensors])


def few_of(model: Model, data: Examples) -> Batch:
    """Return some placed examples to look at."""
    return model.place(data.few(CHECKED_EXAMPLES))


def weights_in_mean(solver: PreparedSolver, operator: CurvatureOperator, data: Examples) -> Tensor:
    """Return the weight of each example in the mean that the curvature in use is; zero for those that are not in it."""
    used: CurvatureOperator = getattr(solver, "operator", operator)  # perhaps over fewer examples
    weights = torch.zeros(len(data), dtype=torch.float64)
    if used.data is data and not isinstance(solver, Identity):
        weights[used.ids] = 1 / used.examples
    return weights


def _without_own_curvature(inside: Tensor, bends: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return $K (I - \Lambda K)^{-1} r$ and the largest eigenvalue of $\Lambda K$, the leverage.

    With $K = B B^\top$ it is $B (I - B^\top \Lambda B)^{-1} B^\top r$, a symmetric problem.
    """
    values, vectors_ = torch.linalg.eigh(inside)
    root = vectors_ * values.clamp_min(0).sqrt()[:, None]
    leverages, turned = torch.linalg.eigh(root.mT @ bends @ root)
    root = root @ turned
    step = _times(root, _times(root.mT, slope) / (1 - leverages.clamp_max(MOST_LEVERAGE)))
    return step, leverages[:, -1]


def _positive(matrices: Tensor) -> Tensor:
    """Take from symmetric matrices what rounding made negative."""
    values, directions = torch.linalg.eigh(matrices)
    positive: Tensor = (directions * values.clamp_min(0)[:, None]) @ directions.mT
    return positive


def _expanded(losses: Tensor, slope: Tensor, bends: Tensor, step: Tensor) -> Tensor:
    """Return the loss to the second order."""
    return losses.double() + _inner(slope, step) + _inner(step, _times(bends, step)) / 2


def _times(matrices: Tensor, columns: Tensor) -> Tensor:
    return (matrices @ columns[:, :, None])[:, :, 0]


def _inner(left: Tensor, right: Tensor) -> Tensor:
    return (left * right).sum(dim=1)
