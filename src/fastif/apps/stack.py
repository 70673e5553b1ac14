r"""Many models of one form, trained at once: each on its own weights of the examples, all in the same order.

A stack holds the chosen parameters of M models, each tensor with one more dimension in front; what lies below them is
the same for all and comes from stored states. In every step all models see the same examples: model m descends on
$\sum_i w_{mi} \ell_i / \sum_i w_{mi}$ over the batch, so that an example of weight 0 is not there for it. Torch's
optimizers act on each number alone and train the stack as they would train each model.

Models go through a batch *together*, under one `vmap` over their parameters (forwards; backwards is plain autograd), or
*apart*, one after another on the same batch. Both give the same numbers to rounding. Together wins where a pass is too
small to fill the machine: any small network, and encoders on a GPU. On a CPU, products of an encoder's size are slower
in a batch than one by one (`python -m fastif.bench.retraining` measures both).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import vmap

from fastif import memory, vectors
from fastif.apps.training_recipe import TrainingRecipe, stepping
from fastif.batch import Batch
from fastif.data import Examples
from fastif.errors import ConvergenceError, FastifError, ShapeError
from fastif.model import TorchModel
from fastif.progress import Progress, silent
from fastif.shuffling import bucketed

Parameters = dict[str, Tensor]
Stack = dict[str, Tensor]
Order = Callable[[int], Iterable[Tensor]]
"""The batches of an epoch, as numbers of examples; epochs are asked for in order, from 1 on."""

# parameters x examples of a pass below which models go together: a CPU is then busy with calls and not with products
TOGETHER_BELOW = {"cpu": 1e7, "cuda": 1e10}
COPIES = 6  # of the parameters of a model while it is trained: itself, gradient, two moments, and what a step makes
CPU_BYTES, OF_GPU = 2**30, 0.5  # what a stack may take
BATCH_SIZE = 256  # examples that are judged at once


@dataclass(frozen=True)
class StackTraining:
    """How stacks of one model are trained.

    Args:
        model: the model, whose chosen parameters are trained.
        train: the examples, with stored states where the model has a frozen prefix.
        recipe: the knobs.
        together: whether models go through a batch together; None chooses.
        progress: called as progress(stage, done, total).
        order: the batches of each epoch; drawn by the seed unless given.
    """

    model: TorchModel
    train: Examples
    recipe: TrainingRecipe
    together: bool | None = None
    progress: Progress = silent
    order: Order | None = None

    def fit(self, weights: Tensor, start: Parameters, *, seed: int = 0) -> Stack:
        """Return one trained model for each row of `weights` (models, examples), all from the same start.

        Where all examples of a batch have weight 0 for a model, its gradient is zero in that step.
        """
        if weights.ndim != 2 or weights.shape[1] != len(self.train):
            raise ShapeError(
                f"weights must be (models, examples) with {len(self.train)} examples, not {tuple(weights.shape)}."
            )
        device, recipe, total = self.model.device, self.recipe, len(self.train)
        stack = repeated({name: start[name].to(device) for name in self.model.parameters}, len(weights))
        stack = {name: tensor.requires_grad_() for name, tensor in stack.items()}
        optimizer = recipe.make_optimizer(stack)
        way, steps, step = self._way(), recipe.steps(total), 0
        for epoch in range(1, recipe.passes + 1):
            for ids in self._batches(seed, epoch):
                for group in optimizer.param_groups:
                    group["lr"] = recipe.rate(step, steps)
                batch = self.model.place(self.train.batch(ids))
                shares = weights[:, ids].to(device, next(iter(stack.values())).dtype)
                shares = shares / shares.sum(dim=1, keepdim=True).clamp_min(torch.finfo(shares.dtype).tiny)
                way.slopes(stack, batch, shares)
                if recipe.clip is not None:
                    _clip(stack, recipe.clip)
                with stepping(f"epoch {epoch}, step {step + 1}", optimizer.param_groups[0]["lr"]):
                    optimizer.step()
                step += 1
                self.progress("retraining", step, recipe.passes * -(-total // recipe.batch_size))
            self._check_finite(stack, epoch)
        return {name: tensor.detach() for name, tensor in stack.items()}

    def models_at_once(self) -> int:
        """Return how many models fit into memory together."""
        each = COPIES * sum(tensor.nbytes for tensor in self.model.parameters.values())
        if self._goes_together():
            each += 2 * self.recipe.batch_size * self.model.bytes_per_example
        return max(1, memory.share(self.model.device, OF_GPU, CPU_BYTES) // max(1, each))

    def _batches(self, seed: int, epoch: int) -> Iterable[Tensor]:
        if self.order is not None:
            return self.order(epoch)
        return bucketed(self.train.lengths, len(self.train), self.recipe.batch_size, seed=seed, epoch=epoch)

    def _goes_together(self) -> bool:
        return goes_together(self.model, self.recipe.batch_size) if self.together is None else self.together

    def _way(self) -> "_Way":
        return _Way(self.model, self._goes_together())

    def _check_finite(self, stack: Stack, epoch: int) -> None:
        if not all(bool(torch.isfinite(tensor).all()) for tensor in stack.values()):
            raise ConvergenceError(
                f"a retraining diverged: in epoch {epoch} a weight is not finite, at a learning rate of "
                f"{self.recipe.learning_rate:.2g}. Lower the learning rate, to a tenth for instance."
            )


def goes_together(model: TorchModel, examples: int) -> bool:
    """Return whether passes over so many examples are faster with many models together than one by one."""
    kind = "cpu" if model.device.type == "cpu" else "cuda"
    return vectors.size(model.parameters) * examples <= TOGETHER_BELOW[kind]


def repeated(parameters: Parameters, count: int) -> Stack:
    """Return a stack of so many models with the same parameters."""
    return {name: tensor.detach().expand(count, *tensor.shape).clone() for name, tensor in parameters.items()}


def member(stack: Stack, index: int) -> Parameters:
    """Return the parameters of one model of a stack."""
    return {name: tensor[index] for name, tensor in stack.items()}


def stacked_losses(model: TorchModel, stack: Stack, examples: Examples, *, together: bool | None = None) -> Tensor:
    """Return the loss of every example for every model, (models, examples), on the CPU."""
    everyone = examples.everyone()
    order = everyone[examples.by_length(everyone)]
    parts = []
    with torch.no_grad():
        for batch in examples.batches(BATCH_SIZE, order):
            parts.append(losses_on(model, stack, model.place(batch), together=together).cpu())
    return torch.cat(parts, dim=1)[:, order.argsort()]


def losses_on(model: TorchModel, stack: Stack, batch: Batch, *, together: bool | None = None) -> Tensor:
    """Return the loss of every example of a placed batch for every model, (models, batch)."""
    way = _Way(model, goes_together(model, len(batch)) if together is None else together)
    with torch.no_grad():
        return way.losses(stack, batch)


class _Way:
    """A pass of all models over one batch, together where that was chosen and torch has rules for it."""

    def __init__(self, model: TorchModel, together: bool) -> None:
        self._model, self._together = model, together

    def slopes(self, stack: Stack, batch: Batch, shares: Tensor) -> None:
        """Write to each tensor of the stack the gradient of the shares' sum of losses, model by model."""
        for tensor in stack.values():
            tensor.grad = None

        def at_once() -> None:
            (shares * self._vmapped(stack, batch)).sum().backward()

        def one_by_one() -> None:
            for tensor in stack.values():
                tensor.grad = torch.zeros_like(tensor)
            for row, share in enumerate(shares):
                leaves = {}
                for name, tensor in stack.items():
                    leaf = tensor.detach()[row].requires_grad_()
                    assert tensor.grad is not None
                    leaf.grad = tensor.grad[row]  # a view: backward adds to it in place
                    leaves[name] = leaf
                (share * self._losses(leaves, batch)).sum().backward()

        with torch.inference_mode(False), torch.enable_grad():
            self._in_a_way(at_once, one_by_one)
        for tensor in stack.values():
            tensor.grad = torch.zeros_like(tensor) if tensor.grad is None else tensor.grad

    def losses(self, stack: Stack, batch: Batch) -> Tensor:
        """Return the loss of every example of a placed batch for every model."""
        rows = range(vectors.width(stack))
        result: list[Tensor] = []
        self._in_a_way(
            lambda: result.append(self._vmapped(stack, batch)),
            lambda: result.append(torch.stack([self._losses(member(stack, row), batch) for row in rows])),
        )
        return result[-1]

    def _losses(self, parameters: Parameters, batch: Batch) -> Tensor:
        return self._model.losses(self._model.outputs(parameters, batch.inputs), batch.targets)

    def _vmapped(self, stack: Stack, batch: Batch) -> Tensor:
        values: Tensor = vmap(lambda parameters: self._losses(parameters, batch), randomness="same")(stack)
        return values

    def _in_a_way(self, at_once: Callable[[], None], one_by_one: Callable[[], None]) -> None:
        if self._together:
            try:
                at_once()
                return
            except (FastifError, torch.OutOfMemoryError):
                raise
            except (RuntimeError, IndexError, TypeError):  # an operation that has no rule for several models
                self._together = False
        one_by_one()


def _clip(stack: Stack, longest: float) -> None:
    """Shorten the gradient of each model as torch.nn.utils.clip_grad_norm_ shortens that of one."""
    slopes = {name: tensor.grad for name, tensor in stack.items() if tensor.grad is not None}
    factors = (longest / (vectors.norm(slopes) + 1e-6)).clamp(max=1.0)
    for slope in slopes.values():
        slope.mul_(factors.reshape(-1, *[1] * (slope.ndim - 1)))
