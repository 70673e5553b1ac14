r"""Gradients of each example, one by one: of a measure, and of the outputs, which are the rows of the Jacobian.

The Gauss-Newton matrix of a batch is $\sum_i J_i^\top \Lambda_i J_i = A^\top S A$, where A stacks the rows
$|\Lambda_i|^{1/2} J_i$ (one for each output in which the loss of example i bends) and S holds their signs. Where every
parameter is captured, one forward pass and a backward pass for each row give them for a whole batch; elsewhere they are
general derivatives. This file knows models and batches, and no data set.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from fastif import derivatives, memory, vectors
from fastif.batch import Batch
from fastif.capture import (
    CaptureError,
    Factor,
    Forward,
    Lookup,
    Outer,
    Plan,
    Route,
    capture,
    find_route,
    run_forward,
)
from fastif.derivatives import output_hessians, require_finite
from fastif.losses import PerExample
from fastif.model import Model
from fastif.precision import wide_product
from fastif.vectors import Block

CHECKED_EXAMPLES = 4  # that the plan is made and checked on; fewer than these are not worth a plan
ALIGNED = 8  # examples at once are a multiple of this, as fast kernels want it
BYTES, PART = 2**28, 0.15  # what the rows that are held at one time may take: on a CPU, and of a GPU's memory


class Jacobian:
    """Gradients of each example of a model, in the cheapest way that was found right on a few placed examples."""

    def __init__(self, model: Model, few: Batch) -> None:
        self.model = model
        self._few = few.rows(0, CHECKED_EXAMPLES)

    @cached_property
    def route(self) -> Route:
        """A plan that captures every parameter, checked against general derivatives; found when first needed."""
        found = find_route(self.model, self._few, self._compare, _mixture, kind="outputs")
        if found.plan is not None and found.plan.rest:  # a general derivative of some costs as much as one of all
            return Route(None, f"general derivatives, as these need them: {', '.join(found.plan.rest)}")
        return found

    @cached_property
    def positions(self) -> float:
        """T, the positions (tokens, pixels) of an example that a weight sees, averaged over weights; 1 if unknown."""
        plan = self.route.plan
        if plan is None:
            return 1.0
        factors = capture(self.model, self._few, plan, _mixture)
        seen = sum(_positions(factor) * self.model.parameters[factor.name].numel() for factor in factors)
        return max(1.0, seen / vectors.size(self.model.parameters))

    @property
    def examples_at_once(self) -> int:
        """How many examples' gradients the budget holds."""
        tensors = self.model.parameters.values()
        budget = memory.share(next(iter(tensors)).device, PART, BYTES)
        count = max(1, budget // sum(tensor.nbytes for tensor in tensors))
        return count // ALIGNED * ALIGNED or count

    def gradients(self, batch: Batch, measure: PerExample | None = None) -> Block:
        """Return the gradient of each example's loss, or of another measure of it, as a block of len(batch) vectors."""
        if len(batch) >= CHECKED_EXAMPLES and self.route.plan is not None:
            try:
                return self.formed(capture(self.model, batch, self.route.plan, measure), len(batch))
            except CaptureError:  # layers that depend on the data
                pass
        return derivatives.gradients(self.model, batch, measure)

    def signed_rows(self, batch: Batch) -> Iterator[tuple[Block, Tensor]]:
        r"""Yield blocks of rows $|\Lambda_i|^{1/2} J_i$, one row for each of some examples, with their signs.

        A sign is 1, -1, or 0 for a row to be left out, along which the loss does not bend. The batch is cut so that
        what is yielded at one time stays within a budget.
        """
        for start in range(0, len(batch), self.examples_at_once):
            yield from self._rows(batch.rows(start, start + self.examples_at_once))

    def at(self, batch: Batch) -> "OutputRows":
        """Run a placed batch forward, so that rows of the Jacobian of its outputs can be taken from there."""
        plan = self.route.plan
        try:
            forward = run_forward(self.model, batch, plan) if plan is not None else None
        except CaptureError:
            forward = None
        outputs = self.model.outputs(self.model.parameters, batch.inputs) if forward is None else forward.outputs
        return OutputRows(self, batch, outputs, forward)

    def _rows(self, batch: Batch) -> Iterator[tuple[Block, Tensor]]:
        point = self.at(batch)
        for cotangents, signs in self.bends(point):
            yield point.rows(cotangents), signs

    def bends(self, point: "OutputRows") -> Iterator[tuple[Tensor, Tensor]]:
        r"""Yield $|\Lambda_i|^{1/2} u_i$, u_i an eigenvector of the loss's Hessian in the outputs, and the signs."""
        model, outputs, batch = self.model, point.outputs, point.batch
        hessians = output_hessians(model, outputs, batch).double()
        require_finite(hessians)  # or eigh would speak of convergence
        values, directions = torch.linalg.eigh(hessians)
        rounding = values.shape[1] * torch.finfo(outputs.dtype).eps * values.abs().max()
        flat = _flat_columns(hessians, outputs) if model.loss_is_softmax else None
        for column in range(values.shape[1]):
            bend = values[:, column]
            signs = torch.where(bend.abs() > rounding, bend.sign(), 0.0)
            if flat is not None:
                signs = signs.where(flat != column, 0.0)
            if not signs.any():
                continue
            yield directions[:, :, column] * bend.abs().sqrt()[:, None], signs

    def formed(self, factors: list[Factor], examples: int) -> Block:
        """Return the gradients that factors stand for."""
        found: dict[str, Tensor] = {}
        for factor in factors:
            part = factor.gradients()
            found[factor.name] = found[factor.name] + part if factor.name in found else part
        return {
            name: found[name].view(examples, *tensor.shape)
            if name in found
            else tensor.new_zeros(examples, *tensor.shape)
            for name, tensor in self.model.parameters.items()
        }

    def _compare(self, plan: Plan) -> tuple[Tensor, Tensor]:
        if plan.rest:  # will not be used
            nothing = next(iter(self.model.parameters.values())).new_zeros(0)
            return nothing, nothing
        seen = self.formed(capture(self.model, self._few, plan, _mixture), len(self._few))
        return vectors.flatten(seen), vectors.flatten(derivatives.gradients(self.model, self._few, _mixture))


@dataclass(frozen=True)
class OutputRows:
    """The outputs of a placed batch, and rows of their Jacobian, of which one forward pass gives as many as wanted."""

    jacobian: Jacobian
    batch: Batch
    outputs: Tensor
    forward: Forward | None

    def rows(self, cotangents: Tensor) -> Block:
        r"""Return $u_i^\top J_i$ for every example i, with u_i its row of the cotangents, (batch, outputs)."""
        factors = self.factors(cotangents)
        if factors is None:
            given = cotangents.to(self.outputs).view_as(self.outputs)
            return derivatives.gradients(self.jacobian.model, replace(self.batch, targets=given), _inner_product)
        return self.jacobian.formed(factors, len(self.batch))

    def factors(self, cotangents: Tensor) -> list[Factor] | None:
        """Return what these rows are made of, None where the batch could not be captured."""
        if self.forward is None:
            return None
        try:
            return self.forward.factors(self.outputs, cotangents.to(self.outputs).view_as(self.outputs), keep=True)
        except CaptureError:  # layers that depend on the data
            return None


def product_by_rows(jacobian: Jacobian, batch: Batch, block: Block) -> Block:
    r"""Return $A^\top S (A v)$, the Gauss-Newton product over the batch, for every vector v of the block."""
    columns = {name: vectors.as_rows(tensor) for name, tensor in block.items()}
    total = {name: torch.zeros_like(tensor) for name, tensor in columns.items()}
    for rows, signs in jacobian.signed_rows(batch):
        flat = {name: vectors.as_rows(tensor) for name, tensor in rows.items()}
        change = torch.stack([wide_product(columns[name], flat[name]) for name in flat]).sum(dim=0)
        change *= signs.to(change)
        for name, tensor in flat.items():
            total[name].addmm_(change, tensor)
    return {name: tensor.view_as(block[name]) for name, tensor in total.items()}


def _flat_columns(hessians: Tensor, outputs: Tensor) -> Tensor:
    """Return for each example which eigenvalue, in rising order, is zero whatever rounding says; -1 for none.

    A softmax does not bend along (1, ..., 1). Elsewhere it bends upwards, so that this is the first; or downwards,
    where the targets of all classes add up to less than zero, as those of a policy gradient may, and it is the last.
    """
    bends = hessians.diagonal(dim1=1, dim2=2).reshape(len(outputs), outputs.shape[1], -1).sum(dim=1)  # of each position
    last = torch.full_like(bends[:, 0], hessians.shape[1] - 1)
    found = torch.where((bends >= 0).all(dim=1), 0.0, torch.where((bends <= 0).all(dim=1), last, -1.0))
    return found.long()


def _mixture(outputs: Tensor, targets: Tensor) -> Tensor:
    """A measure that every output of an example enters, each with another weight."""
    flat = outputs.flatten(1) if outputs.ndim > 1 else outputs[:, None]
    weights = torch.arange(1, flat.shape[1] + 1, device=flat.device).cos()
    return flat @ weights.to(flat)


def _inner_product(outputs: Tensor, cotangents: Tensor) -> Tensor:
    return (outputs * cotangents).reshape(len(outputs), -1).sum(dim=1)


def _positions(factor: Factor) -> int:
    if isinstance(factor, Outer):
        return factor.left.shape[1]
    return (factor.ids if isinstance(factor, Lookup) else factor.slopes).shape[1]
