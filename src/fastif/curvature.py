r"""The mean curvature of a loss over a data set, as an operator.

The mean loss over n examples has the Hessian $H = \frac1n \sum_i \nabla^2 \ell_i$ and the Gauss-Newton matrix
$G = \frac1n \sum_i J_i^\top (\partial^2 \ell_i / \partial f_i^2) J_i$ with $J_i$ the Jacobian of the outputs $f_i$.
Neither is ever formed here: `CurvatureOperator` multiplies a block of vectors by one of them in a pass over the data.
This file knows models and data, and no solver.
"""

import copy
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from fastif import vectors
from fastif.batch import Batch
from fastif.capture import CaptureError
from fastif.data import Examples
from fastif.derivatives import (
    directional_derivatives,
    gauss_newton_product,
    gradients,
    grouped_product,
    hessian_product,
    output_changes,
    output_products,
)
from fastif.errors import ConfigurationError, ModelError
from fastif.factored import can_be_factored, factored_product, product_of_few
from fastif.fitting import fitting
from fastif.jacobian import CHECKED_EXAMPLES, Jacobian, product_by_rows
from fastif.keeping import Keep, nothing_kept
from fastif.model import Model
from fastif.progress import Progress, silent
from fastif.shares import Helpers, Share
from fastif.vectors import Block

Kind = Literal["gauss-newton", "hessian"]
Way = Literal["vectors", "factors", "rows"]
KINDS = ("gauss-newton", "hessian")
SYMMETRY_EXAMPLES = 32
GRADIENT_MARGIN = 0.05  # a module may round by an autocast of its own, which is told elsewhere
ROUNDING_MARGIN = 10.0  # roundings on the way to a product
RESIDENT_BYTES = 2**28  # data below this size stays on the model's device between passes
# Counted in forward passes. A vector takes a forward-mode derivative and a pull-back. From the factors of R rows it
# takes two products for each, and all vectors together a forward and R backward passes. A formed Jacobian row takes a
# backward pass and its gradient's making; that is written to memory, and multiplied twice with every vector, once for
# an example and not at each of its T positions. Fitted to where the ways cross in `python -m fastif.bench.products`.
VECTOR_COST, ROW_COST, ROW_WRITING_COST, ROW_PRODUCT_COST = 4.0, 2.0, 48.0, 1.5
FACTOR_COST = {"cpu": 0.6, "cuda": 0.3}  # of a pass without forward mode
ROW_TIMES = {"cpu": 1.0, "cuda": 1.6}  # what rows take more where memory is what takes time
FEW = 32  # examples whose products take as long as their kernels' launching
EXAMPLES_AT_ONCE = 4  # with fewer in the budget of rows, passes are too small


class CurvatureOperator:
    """The mean curvature over a data set, plus weight decay, as a product with blocks of vectors.

    Args:
        model: the model, whose parameters fix the point of expansion.
        data: the examples that the mean runs over.
        kind: "gauss-newton" or "hessian".
        weight_decay: c of a term c/2 ||theta||^2 in the objective, which adds c to the diagonal.
        ids: take the mean over these examples only.
        batch_size: how many examples go through the model together.
        keep: where pieces of long work are kept, for those who make something of this operator.
        helpers: other processes that hold a share of the data each, and of every product.

    >>> import fastif
    >>> model = fastif.TorchModel(torch.nn.Linear(1, 1, bias=False), loss="mse_loss")
    >>> data = fastif.Examples((torch.tensor([[1.0], [3.0]]), torch.tensor([0.0, 0.0])))
    >>> H = CurvatureOperator(model, data)  # of the mean of (w x - y)^2: 2 mean(x^2) = 10
    >>> H({"weight": torch.ones(1, 1, 1)})["weight"].item()
    10.0
    """

    def __init__(
        self,
        model: Model,
        data: Examples,
        *,
        kind: Kind = "gauss-newton",
        weight_decay: float = 0.0,
        ids: Tensor | None = None,
        batch_size: int = 256,
        progress: Progress = silent,
        keep: Keep = nothing_kept,
        helpers: Helpers | None = None,
    ) -> None:
        if kind not in KINDS:
            raise ConfigurationError(f"curvature must be one of {', '.join(KINDS)}, not {kind!r}.")
        if not weight_decay >= 0:
            raise ConfigurationError(f"weight_decay must be zero or positive, not {weight_decay}.")
        self.model, self.data, self.kind, self.weight_decay = model, data, kind, weight_decay
        self.batch_size, self.progress, self.keep, self.helpers = batch_size, progress, keep, helpers
        self._ids = ids
        self._resident: dict[Share | None, list[Batch]] = {}

    def subsample(self, count: int | None, *, seed: int) -> "CurvatureOperator":
        """Return this operator over `count` examples, drawn once and then frozen; itself if that is all of them."""
        if count is None or count >= self.examples:
            return self
        if count < 1:
            raise ConfigurationError(f"subsample must be at least 1, not {count}.")
        generator = torch.Generator("cpu").manual_seed(seed)
        return self.over(torch.randperm(self.examples, generator=generator, device="cpu")[:count].sort().values)

    def over(self, positions: Tensor) -> "CurvatureOperator":
        """Return this operator over some of its examples, by their positions among them."""
        return CurvatureOperator(
            self.model,
            self.data,
            kind=self.kind,
            weight_decay=self.weight_decay,
            ids=self.ids[positions],
            batch_size=self.batch_size,
            progress=self.progress,
            keep=self.keep,
            helpers=self.helpers,
        )

    def alone(self) -> "CurvatureOperator":
        """Return this operator without help from other processes."""
        other = copy.copy(self)
        other.helpers = None
        return other

    def as_kind(self, kind: Kind) -> "CurvatureOperator":
        """Return the operator of another curvature over the same examples."""
        other = copy.copy(self)
        other.kind = kind
        return other

    @property
    def examples(self) -> int:
        """n, the number of examples that the mean runs over."""
        return len(self.data) if self._ids is None else len(self._ids)

    @property
    def ids(self) -> Tensor:
        """The numbers of the examples that the mean runs over."""
        return self.data.everyone() if self._ids is None else self._ids

    @property
    def size(self) -> int:
        """p, the number of parameters."""
        return vectors.size(self.model.parameters)

    @cached_property
    def outputs_per_example(self) -> int:
        """C, the number of outputs for one example; where they are of unequal lengths, for the longest that is seen."""
        with torch.no_grad():
            return self.model.outputs(self.model.parameters, self._few.inputs).numel() // len(self._few)

    @property
    def rows_per_example(self) -> int:
        """How many Jacobian rows one example has: a softmax over C classes bends in C - 1 directions, others in C."""
        return self.outputs_per_example - self.model.loss_is_softmax

    @cached_property
    def jacobian(self) -> Jacobian:
        """The gradients of each example, one by one."""
        return Jacobian(self.model, self._few)

    @cached_property
    def _few(self) -> Batch:
        """Some of the examples, placed, that stand for all."""
        return self.model.place(self.data.few(CHECKED_EXAMPLES, self._ids))

    def costs(self, width: int) -> dict[Way, float]:
        """Return what a product with this many vectors costs in each of the ways that there are."""
        found: dict[Way, float] = {"vectors": VECTOR_COST * width}
        rows = self.rows_per_example
        device = "cpu" if self._device.type == "cpu" else "cuda"
        by_factors = FACTOR_COST[device] * (1 + rows + 2 * rows * width)
        if self.kind != "gauss-newton" or found["vectors"] <= min(by_factors, ROW_COST * rows):
            return found  # whatever a plan would say, which takes some passes to make
        plan = self.jacobian.route.plan
        if plan is None:
            return found
        if can_be_factored(plan):
            found["factors"] = by_factors
        if self.jacobian.examples_at_once >= EXAMPLES_AT_ONCE:
            for_each_row = ROW_COST + (ROW_WRITING_COST + ROW_PRODUCT_COST * width) / self.jacobian.positions
            found["rows"] = ROW_TIMES[device] * rows * for_each_row
        return found

    def way(self, width: int) -> Way:
        """Return how a product with this many vectors is made: the cheapest."""
        costs = self.costs(width)
        return min(costs, key=lambda way: costs[way])

    def __call__(self, block: Block, damping: float = 0.0) -> Block:
        """Return (H + weight_decay I + damping I) v for every vector v of the block."""
        return self._mean(self.way(vectors.width(block)), block, damping)

    def grouped(self, batch: Batch, block: Block, groups: int) -> Block:
        """Return the sums over the examples of each part of a placed batch, times the vectors of each part of a block.

        Both are cut into `groups` equal parts, one after another.
        """
        plan = self.jacobian.route.plan if self.kind == "gauss-newton" else None
        if plan is not None and can_be_factored(plan):
            try:
                if len(batch) <= FEW:
                    outputs = self.outputs_per_example
                    return product_of_few(self.model, batch, block, plan, groups=groups, outputs_each=outputs)
                return factored_product(self.model, batch, block, plan, groups=groups)
            except CaptureError:  # layers that depend on the data
                pass
        return grouped_product(self.kind, self.model, batch, block, groups)

    def _factored(self, batch: Batch, block: Block) -> Block:
        plan = self.jacobian.route.plan
        assert plan is not None
        try:
            return factored_product(self.model, batch, block, plan)
        except CaptureError:
            return self._general(batch, block)

    @property
    def _device(self) -> torch.device:
        return next(iter(self.model.parameters.values())).device

    def _general(self, batch: Batch, block: Block) -> Block:
        product = gauss_newton_product if self.kind == "gauss-newton" else hessian_product
        return product(self.model, batch, block)

    def _mean(self, way: Way, block: Block, damping: float = 0.0) -> Block:
        shifted = vectors.scale(block, (self.weight_decay + damping) * self.examples)
        if self.helpers is None:
            total = self.summed(way, block, start=shifted)
        else:
            total = vectors.add(shifted, self.helpers.product(self, way, block))
        return vectors.scale(total, 1 / self.examples)

    def summed(self, way: Way, block: Block, *, start: Block | None = None, share: Share | None = None) -> Block:
        """Return the sum over the examples, or a share of them, of their curvature times each vector of a block."""
        ways: dict[Way, Callable[[Batch, Block], Block]] = {
            "vectors": self._general,
            "factors": self._factored,
            "rows": lambda batch, some: product_by_rows(self.jacobian, batch, some),
        }
        total = vectors.scale(block, 0.0) if start is None else start
        for batch in self.batches(share):
            for part in fitting(lambda some: ways[way](some, block), batch):
                total = vectors.add(total, part)
        return total

    def batch(self, positions: Tensor) -> Batch:
        """Return some of the examples that the mean runs over, placed, by their positions among them."""
        ids = positions if self._ids is None else self._ids[positions]
        return self.model.place(self.data.batch(ids))

    def check_symmetry(self) -> None:
        """Raise if u . H v and v . H u differ on a few examples, as they do where torch has a wrong derivative.

        They differ by rounding too, and by nothing else where the terms of H cancel, as those of a softmax do that is
        sure of itself.
        """
        pair = vectors.random(self.model.parameters, 2, seed=0)
        part = self.alone().subsample(SYMMETRY_EXAMPLES, seed=0)
        image = part._mean("vectors", pair)  # from Jacobian rows it would be symmetric whatever they are
        swapped = {name: tensor.flip(0) for name, tensor in image.items()}
        left, right = vectors.dot(pair, swapped).tolist()
        size = float(vectors.norm(pair).max() * vectors.norm(image).max())
        allowed = torch.finfo(vectors.dtype(pair)).eps ** 0.5 * size
        if abs(left - right) > allowed and abs(left - right) > allowed + part._rounding(pair):
            part._require_dependence(pair)
            other = "Try curvature='gauss-newton', or choose" if self.kind == "hessian" else "Choose"
            weights = "weight_norm, " if self.kind == "hessian" else ""
            raise ModelError(
                f"the {self.kind} matrix of this module is not symmetric (u.Hv = {left:.6g}, v.Hu = {right:.6g}): "
                "a derivative is wrong for one of its operations, and scores would be wrong too. Known causes: "
                f"{weights}hooks that change gradients, hand-written autograd functions, torch.autocast inside "
                "forward(), and inputs so large (raw pixels, amounts of money) that little but rounding is left: "
                f"scale them as for training, or use float64. {other} parameters above the operation with trainable=."
            )

    def _require_dependence(self, pair: Block) -> None:
        """Raise if outputs change along random vectors by no more than rounding."""
        outputs = self.model.outputs(self.model.parameters, self._few.inputs).detach()
        change = float(output_changes(self.model, self._few, pair).abs().max())
        if change <= ROUNDING_MARGIN * torch.finfo(outputs.dtype).eps * float(outputs.abs().max()):
            names = ", ".join(list(self.model.parameters)[:3])
            raise ModelError(
                f"the outputs do not depend on the chosen parameters ({names}): they change with them by {change:.2g}, "
                "which is rounding, and so would scores be. Choose others with trainable=; the bias of an attention's "
                "keys, for one, is the same for all that a softmax chooses from, and cancels."
            )

    def check_gradients(self) -> None:
        """Raise if a loss changes along its gradient by anything but the square of its length, on a few examples.

        Gradients are taken backwards and changes forwards: where one of the two is wrong, both are in scores.
        """
        for row in range(len(self._few)):
            example = self._few.rows(row, row + 1)
            slope = gradients(self.model, example)
            change, square = (
                float(directional_derivatives(self.model, example, slope)),
                float(vectors.dot(slope, slope)),
            )
            if abs(change - square) > GRADIENT_MARGIN * square + self._rounding_along(slope, example):
                raise ModelError(
                    f"along the gradient g of the loss of example {int(example.ids[0])} of {example.source} the loss "
                    f"changes by {change:.6g} forwards, and by |g|^2 = {square:.6g} backwards: a derivative is wrong "
                    "for one of the module's operations, and scores would be wrong too. Known causes: hooks that "
                    "change gradients, and hand-written autograd functions. Choose parameters above the operation "
                    "with trainable=."
                )

    def _rounding_along(self, slope: Block, example: Batch) -> float:
        r"""Return how far the change along a gradient may be off by rounding: eps times $|J g| |r|$, uncancelled.

        r, the slope of the loss in the outputs, is next to nothing where a softmax is sure, and is made of terms that
        are as large as where all outputs are zero.
        """
        outputs = self.model.outputs(self.model.parameters, example.inputs).detach()
        steep = 0.0
        for point in (outputs, outputs * 0):
            leaf = point.requires_grad_()
            with torch.enable_grad():
                loss = self.model.losses(leaf, example.targets).sum()
            (slopes,) = torch.autograd.grad(loss, leaf, materialize_grads=True, allow_unused=True)
            steep = max(steep, float(slopes.norm().nan_to_num(0, 0, 0)))
        changes = float(output_changes(self.model, example, slope).norm())
        return ROUNDING_MARGIN * torch.finfo(vectors.dtype(slope)).eps * changes * steep

    def _rounding(self, pair: Block) -> float:
        r"""Return how far u . H v may be off by rounding: eps times the mean of $|J u| |\Lambda J v|$, uncancelled.

        Where a softmax is sure, what is left of $\Lambda$ may be as small as the rounding of its terms. These are as
        large as $\Lambda$ is where all outputs are zero.
        """
        total = 0.0
        for batch in self.batches():
            outputs = self.model.outputs(self.model.parameters, batch.inputs).detach()
            changes = output_changes(self.model, batch, pair).reshape(vectors.width(pair), len(batch), -1)
            sizes = [output_products(self.model, point, batch, changes) for point in (outputs, outputs * 0)]
            bent = torch.stack([size.norm(dim=2) for size in sizes]).nan_to_num(0, 0, 0).amax(dim=0)
            total += float((changes.norm(dim=2).flip(0) * bent).sum(dim=1).max())
        return ROUNDING_MARGIN * torch.finfo(vectors.dtype(pair)).eps * total / self.examples

    def batches(self, share: Share | None = None) -> Iterator[Batch]:
        """Yield the data, or a share of it, placed; what is small enough is kept in place for the next pass."""
        if share in self._resident:
            yield from self._resident[share]
            return
        kept: list[Batch] | None = []
        held = 0
        ids = self.ids if share is None else share.of(self.ids)
        for batch in self.data.batches(self.batch_size, ids[self.data.by_length(ids)]):
            placed = self.model.place(batch)
            held += sum(tensor.nbytes for tensor in placed.tensors().values())
            if held > RESIDENT_BYTES:
                kept = None
            elif kept is not None:
                kept.append(placed)
            yield placed
        if kept is not None:
            self._resident[share] = kept
