r"""Derivatives of a model on one batch: gradients, derivatives along a direction, Gauss-Newton and Hessian products.

Only these routes of torch are taken, as others are silently wrong through `layer_norm`: jvp and vjp of the first order,
jvp of grad, and double backward for the operations that have no forward mode. Many vectors, and many examples, go
through the model together under `vmap`; where torch has no rule for that, one at a time. This file knows models and
batches, and no data set.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import TypeVar

import torch
from torch import Tensor
from torch.func import grad, jvp, vjp, vmap

from fastif import vectors
from fastif.batch import Batch, Inputs
from fastif.errors import ModelError
from fastif.losses import PerExample
from fastif.model import Model
from fastif.vectors import Block, Vector

Result = TypeVar("Result", Tensor, Vector)
VECTORS_AT_ONCE = 32  # tangents carried through the model together; more needs memory and gains little


def gradients(model: Model, batch: Batch, measure: PerExample | None = None) -> Block:
    """Return the gradient of each example's loss, or of another measure of it, as a block of len(batch) vectors.

    All examples go through the model together under `vmap`; models that do not allow it are run one example at a time.
    """
    function = measure or model.losses

    def value(parameters: Vector, inputs: Inputs, target: Tensor) -> Tensor:
        one = Batch(inputs, target, batch.ids[:1]).map(lambda tensor: tensor[None])
        outputs = model.outputs(parameters, one.inputs)
        return function(outputs, one.targets).squeeze(0)

    def one_by_one() -> Block:
        rows = [batch.rows(row, row + 1).map(lambda tensor: tensor[0]) for row in range(len(batch))]
        return _stack([grad(value)(model.parameters, row.inputs, row.targets) for row in rows])

    together = vmap(grad(value), in_dims=(None, 0, 0), randomness="same")
    return _first_that_works(lambda: together(model.parameters, batch.inputs, batch.targets), one_by_one)


def directional_derivatives(model: Model, batch: Batch, directions: Block) -> Tensor:
    r"""Return $s_k \cdot \nabla \ell_i$ for every direction k and example i, shape (K, len(batch)).

    One forward-mode derivative of the *vector* of losses gives a whole row: no gradient of any example is made.
    """

    def losses(parameters: Vector) -> Tensor:
        return model.losses(model.outputs(parameters, batch.inputs), batch.targets)

    def along(direction: Vector) -> Tensor:
        return _jvp(losses, model.parameters, direction)

    return _over_block(along, directions)


def gauss_newton_product(model: Model, batch: Batch, block: Block) -> Block:
    r"""Return $\sum_{i \in \text{batch}} J_i^\top \Lambda_i J_i v$ for every vector v of the block.

    Here $\Lambda_i = \partial^2 \ell_i / \partial f_i^2$.
    """

    def forward(parameters: Vector) -> Tensor:
        return model.outputs(parameters, batch.inputs)

    def total_loss(outputs: Tensor) -> Tensor:
        return model.losses(outputs, batch.targets).sum()

    with _explained():
        outputs, pull_back = vjp(forward, model.parameters)[:2]

    def product(vector: Vector) -> Vector:
        change = _jvp(forward, model.parameters, vector)
        curved = _hvp(lambda point: total_loss(point["outputs"]), {"outputs": outputs}, {"outputs": change})
        result: Vector = pull_back(curved["outputs"])[0]
        return result

    return _over_block(product, block)


def hessian_product(model: Model, batch: Batch, block: Block) -> Block:
    r"""Return $\sum_{i \in \text{batch}} \nabla^2 \ell_i v$ for every vector v of the block."""

    def total_loss(parameters: Vector) -> Tensor:
        return model.losses(model.outputs(parameters, batch.inputs), batch.targets).sum()

    def product(vector: Vector) -> Vector:
        return _hvp(total_loss, model.parameters, vector)

    return _over_block(product, block)


def output_hessians(model: Model, outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the second derivative of each example's loss in its C outputs, (batch, C, C)."""

    def total_loss(point: Vector) -> Tensor:
        return model.losses(point["outputs"].view_as(outputs), targets).sum()

    point = {"outputs": outputs.detach().reshape(len(outputs), -1)}
    identity = torch.eye(point["outputs"].shape[1], dtype=outputs.dtype, device=outputs.device)
    directions = {"outputs": identity[:, None].expand(-1, *point["outputs"].shape)}
    bend = _over_block(lambda direction: _hvp(total_loss, point, direction), directions)["outputs"].transpose(0, 1)
    return (bend + bend.mT) / 2


def _jvp(function: Callable[[Vector], Tensor], point: Vector, direction: Vector) -> Tensor:
    """Return the derivative of a function along a direction."""
    try:
        change: Tensor = jvp(function, (point,), (direction,))[1]
        return change
    except (
        NotImplementedError
    ):  # no forward mode: J v is the derivative of u^T J v in u, which two backward passes give
        leaves = {name: tensor.detach().requires_grad_() for name, tensor in point.items()}
        value = function(leaves)
        dummy = torch.zeros_like(value, requires_grad=True)
        pulled = torch.autograd.grad(value, list(leaves.values()), dummy, create_graph=True, materialize_grads=True)
        parts = [(pull * direction[name]).sum() for pull, name in zip(pulled, leaves, strict=True)]
        product = torch.stack(parts).sum()
        return torch.autograd.grad(product, dummy, materialize_grads=True)[0]


def _hvp(function: Callable[[Vector], Tensor], point: Vector, direction: Vector) -> Vector:
    """Return the second derivative of a function to one number, times a direction."""
    try:
        bend: Vector = jvp(grad(function), (point,), (direction,))[1]
        return bend
    except NotImplementedError:
        leaves = {name: tensor.detach().requires_grad_() for name, tensor in point.items()}
        slopes = torch.autograd.grad(function(leaves), list(leaves.values()), create_graph=True, materialize_grads=True)
        parts = [(slope * direction[name]).sum() for slope, name in zip(slopes, leaves, strict=True)]
        product = torch.stack(parts).sum()
        bends = torch.autograd.grad(product, list(leaves.values()), materialize_grads=True)
        return dict(zip(leaves, bends, strict=True))


def _over_block(function: Callable[[Vector], Result], block: Block) -> Result:
    """Apply a function of one vector to each vector of a block, together where the model allows it."""

    def one_by_one() -> Result:
        rows = range(vectors.width(block))
        return _stack([function({name: tensor[row] for name, tensor in block.items()}) for row in rows])

    together: Callable[[Block], Result] = vmap(function, randomness="same", chunk_size=VECTORS_AT_ONCE)
    single = vectors.width(block) == 1  # needs no vmap, and is faster without it
    return _first_that_works(one_by_one if single else lambda: together(block), one_by_one)


def _stack(results: list[Result]) -> Result:
    if isinstance(results[0], Tensor):
        return torch.stack(results)
    return {name: torch.stack([result[name] for result in results]) for name in results[0]}


def _first_that_works(together: Callable[[], Result], one_by_one: Callable[[], Result]) -> Result:
    """Take the fast way; if torch has no rule for it, or too little memory, the way that asks least of the model."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="There is a performance drop", category=UserWarning)
            return together()
    except RuntimeError:
        pass
    with _explained():
        return one_by_one()


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Turn what torch says of a module that it cannot differentiate into an error that says what to do."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise ModelError(
            f"torch cannot differentiate this module the way that influence needs. It said: {error}. Replace the "
            "operation it names by one made of plain torch functions, or choose parameters above it with trainable=."
        ) from error
