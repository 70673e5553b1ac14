r"""Derivatives of a model on one batch: gradients, derivatives along a direction, Gauss-Newton and Hessian products.

Each is tried in up to three ways: many vectors (or examples) through the model together under `vmap`; one at a time,
where torch has no rule for that; and by plain double backward, where an operation has no forward mode or cannot be
transformed. Only these routes are taken, as others of torch are silently wrong through `layer_norm`: jvp and vjp of the
first order, jvp of grad, and double backward. This file knows models and batches, and no data set.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.func import grad, jvp, vjp, vmap

from fastif import vectors
from fastif.batch import Batch, Inputs
from fastif.errors import FastifError, ModelError, NonFiniteError
from fastif.losses import IGNORED_CLASS, PerExample
from fastif.model import Model
from fastif.vectors import Block, Vector

Result = TypeVar("Result", Tensor, Vector)
MOST_VECTORS_AT_ONCE = 32  # tangents carried through the model together; more gains little
BYTES_AT_ONCE = {"cpu": 2**29, "cuda": 2**33}  # what those tangents may take


def gradients(model: Model, batch: Batch, measure: PerExample | None = None) -> Block:
    """Return the gradient of each example's loss, or of another measure of it, as a block of len(batch) vectors."""
    function = measure or model.losses

    def value(parameters: Vector, inputs: Inputs, target: Tensor) -> Tensor:
        one = Batch(inputs, target, batch.ids[:1]).map(lambda tensor: tensor[None])
        outputs = model.outputs(parameters, one.inputs)
        return function(outputs, one.targets).squeeze(0)

    def one_by_one(take_gradient: Callable[..., Vector]) -> Block:
        rows = [batch.rows(row, row + 1).map(lambda tensor: tensor[0]) for row in range(len(batch))]
        return _stack([take_gradient(value, model.parameters, row.inputs, row.targets) for row in rows])

    together = vmap(grad(value), in_dims=(None, 0, 0), randomness="same")
    return _first_that_works(
        batch,
        lambda: together(model.parameters, batch.inputs, batch.targets),
        lambda: one_by_one(lambda function, *arguments: grad(function)(*arguments)),
        lambda: one_by_one(_plain_gradient),
    )


def directional_derivatives(model: Model, batch: Batch, directions: Block) -> Tensor:
    r"""Return $s_k \cdot \nabla \ell_i$ for every direction k and example i, shape (K, len(batch)).

    One forward-mode derivative of the *vector* of losses gives a whole row: no gradient of any example is made.
    """

    def losses(parameters: Vector) -> Tensor:
        return model.losses(model.outputs(parameters, batch.inputs), batch.targets)

    fast = partial(_jvp, losses, model.parameters)
    plain = partial(_plain_jvp, losses, model.parameters)
    return _over_block(model, batch, directions, lambda: fast, lambda: plain)


def output_changes(model: Model, batch: Batch, directions: Block) -> Tensor:
    r"""Return $J_i s_k$, the derivative of the outputs along every direction k, (K, len(batch), ...)."""

    def outputs(parameters: Vector) -> Tensor:
        return model.outputs(parameters, batch.inputs)

    fast = partial(_jvp, outputs, model.parameters)
    plain = partial(_plain_jvp, outputs, model.parameters)
    return _over_block(model, batch, directions, lambda: fast, lambda: plain)


def gauss_newton_product(model: Model, batch: Batch, block: Block) -> Block:
    r"""Return $\sum_i J_i^\top \Lambda_i J_i v$ over the batch, for every vector v of the block.

    $\Lambda_i = \partial^2 \ell_i / \partial f_i^2$ is the second derivative of the loss in the outputs.
    """

    def plain() -> Callable[[Vector], Vector]:
        leaves = _leaves(model.parameters)
        outputs = model.outputs(leaves, batch.inputs)

        def product(vector: Vector) -> Vector:
            change = _plain_jvp(lambda point: model.outputs(point, batch.inputs), model.parameters, vector)
            bend = _plain_hvp(_loss_of_outputs(model, batch), {"outputs": outputs.detach()}, {"outputs": change})
            return _pulled(outputs, leaves, bend["outputs"], retain_graph=True)

        return product

    return _over_block(model, batch, block, lambda: _gauss_newton(model, batch), plain)


def hessian_product(model: Model, batch: Batch, block: Block) -> Block:
    r"""Return $\sum_i \nabla^2 \ell_i v$ over the batch, for every vector v of the block."""
    plain = partial(_plain_hvp, _total_loss(model, batch), model.parameters)
    return _over_block(model, batch, block, lambda: _hessian(model, batch), lambda: plain)


def grouped_product(kind: str, model: Model, batch: Batch, block: Block, groups: int) -> Block:
    """Return the products of several matrices at once: that of the t-th part of a batch with the t-th part of a block.

    Batch and block are cut into `groups` equal parts, one after another.
    """
    make = _gauss_newton if kind == "gauss-newton" else _hessian
    size, width = len(batch) // groups, vectors.width(block) // groups

    def one_group(inputs: Inputs, targets: Tensor, part: Block) -> Block:
        result: Block = vmap(make(model, Batch(inputs, targets, batch.ids[:size])), randomness="same")(part)
        return result

    def together() -> Block:
        cut = batch.map(lambda tensor: tensor.unflatten(0, (groups, size)))
        parts = {name: tensor.unflatten(0, (groups, width)) for name, tensor in block.items()}
        mapped: Block = vmap(one_group, randomness="same")(cut.inputs, cut.targets, parts)
        return {name: tensor.flatten(0, 1) for name, tensor in mapped.items()}

    def one_by_one() -> Block:
        product = gauss_newton_product if kind == "gauss-newton" else hessian_product
        parts = [vectors.select(block, slice(t * width, (t + 1) * width)) for t in range(groups)]
        return vectors.join(
            [product(model, batch.rows(t * size, (t + 1) * size), part) for t, part in enumerate(parts)]
        )

    return one_by_one() if groups == 1 else _first_that_works(batch, together, one_by_one)


def output_hessians(model: Model, outputs: Tensor, batch: Batch) -> Tensor:
    r"""Return the second derivative of each example's loss in its C outputs, (batch, C, C).

    Of a cross-entropy with one class for each example it is $\mathrm{diag}(p) - p p^\top$, p the softmax.
    """
    if model.loss_is_softmax and outputs.ndim == 2 and batch.targets.ndim == 1:
        shares = outputs.detach().double().softmax(dim=1) * (batch.targets != IGNORED_CLASS)[:, None]
        return torch.diag_embed(shares) - shares[:, :, None] * shares[:, None]
    count = outputs.numel() // len(outputs)
    identity = torch.eye(count, dtype=outputs.dtype, device=outputs.device)
    bend = output_products(model, outputs, batch, identity[:, None].expand(-1, len(outputs), -1)).transpose(0, 1)
    return (bend + bend.mT) / 2


def output_products(model: Model, outputs: Tensor, batch: Batch, directions: Tensor) -> Tensor:
    r"""Return $\Lambda_i u_i$ for K directions of every example's outputs, (K, batch, C) as they are given."""

    def total_loss(point: Vector) -> Tensor:
        return model.losses(point["outputs"].view_as(outputs), batch.targets).sum()

    point = {"outputs": outputs.detach().reshape(len(outputs), -1)}
    fast, plain = partial(_hvp, total_loss, point), partial(_plain_hvp, total_loss, point)
    return _over_block(model, batch, {"outputs": directions}, lambda: fast, lambda: plain)["outputs"]


def require_finite(curvature: Tensor) -> None:
    """Raise if a product with H, or H itself, holds a number that is not finite."""
    if not torch.isfinite(curvature).all():
        raise NonFiniteError(
            "a product with the curvature holds a NaN or an infinity. The loss has no finite second derivative at "
            "these weights; look for operations such as sqrt or log at zero."
        )


# --- functions to differentiate --------------------------------------------------------------------------------------


def _total_loss(model: Model, batch: Batch) -> Callable[[Vector], Tensor]:
    return lambda parameters: model.losses(model.outputs(parameters, batch.inputs), batch.targets).sum()


def _loss_of_outputs(model: Model, batch: Batch) -> Callable[[Vector], Tensor]:
    return lambda point: model.losses(point["outputs"], batch.targets).sum()


def _hessian(model: Model, batch: Batch) -> Callable[[Vector], Vector]:
    return partial(_hvp, _total_loss(model, batch), model.parameters)


def _gauss_newton(model: Model, batch: Batch) -> Callable[[Vector], Vector]:
    def forward(parameters: Vector) -> Tensor:
        return model.outputs(parameters, batch.inputs)

    outputs, pull_back = vjp(forward, model.parameters)[:2]

    def product(vector: Vector) -> Vector:
        change = _jvp(forward, model.parameters, vector)
        bend = _hvp(_loss_of_outputs(model, batch), {"outputs": outputs}, {"outputs": change})
        result: Vector = pull_back(bend["outputs"])[0]
        return result

    return product


# --- one vector ------------------------------------------------------------------------------------------------------


def _jvp(function: Callable[[Vector], Tensor], point: Vector, direction: Vector) -> Tensor:
    change: Tensor = jvp(function, (point,), (direction,))[1]
    return change


def _hvp(function: Callable[[Vector], Tensor], point: Vector, direction: Vector) -> Vector:
    bend: Vector = jvp(grad(function), (point,), (direction,))[1]
    return bend


def _plain_gradient(function: Callable[..., Tensor], point: Vector, *arguments: Any) -> Vector:
    leaves = _leaves(point)
    return _pulled(function(leaves, *arguments), leaves)


def _plain_jvp(function: Callable[[Vector], Tensor], point: Vector, direction: Vector) -> Tensor:
    """Return J v as the derivative of u^T J v in u, by two backward passes."""
    leaves = _leaves(point)
    value = function(leaves)
    dummy = torch.zeros_like(value, requires_grad=True)
    pulled = _pulled(value, leaves, dummy, create_graph=True)
    return torch.autograd.grad(_inner(pulled, direction), dummy, materialize_grads=True)[0]


def _plain_hvp(function: Callable[[Vector], Tensor], point: Vector, direction: Vector) -> Vector:
    leaves = _leaves(point)
    return _pulled(_inner(_pulled(function(leaves), leaves, create_graph=True), direction), leaves)


def _leaves(point: Vector) -> Vector:
    return {name: tensor.detach().requires_grad_() for name, tensor in point.items()}


def _pulled(value: Tensor, leaves: Vector, cotangent: Tensor | None = None, **options: bool) -> Vector:
    """Return the derivative of a value, or of its product with a cotangent, in the leaves; zero where it has none."""
    if not value.requires_grad:
        return {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
    slopes = torch.autograd.grad(value, list(leaves.values()), cotangent, materialize_grads=True, **options)
    if options.get("create_graph"):
        _require_differentiable_again(slopes)
    return dict(zip(leaves, slopes, strict=True))


def _require_differentiable_again(slopes: tuple[Tensor, ...]) -> None:
    """Raise for a backward pass marked as differentiable once: torch would leave its part out without a word."""
    waiting = [slope.grad_fn for slope in slopes if slope.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        if node.name().endswith("::Error"):
            raise RuntimeError("an operation of the module is marked with @once_differentiable")
        fresh = {below for below, _ in node.next_functions if below is not None} - seen
        seen |= fresh
        waiting += fresh


def _inner(left: Vector, right: Vector) -> Tensor:
    return torch.stack([(left[name] * right[name]).sum() for name in left]).sum()


# --- many vectors ----------------------------------------------------------------------------------------------------


def _over_block(
    model: Model,
    batch: Batch,
    block: Block,
    fast: Callable[[], Callable[[Vector], Result]],
    plain: Callable[[], Callable[[Vector], Result]],
) -> Result:
    """Apply a function of one vector to each vector of a block, in the fastest way that works."""

    def one_by_one(make: Callable[[], Callable[[Vector], Result]]) -> Result:
        function = make()
        rows = range(vectors.width(block))
        return _stack([function({name: tensor[row] for name, tensor in block.items()}) for row in rows])

    def together() -> Result:
        mapped: Callable[[Block], Result] = vmap(fast(), randomness="same", chunk_size=vectors_at_once(model, batch))
        return mapped(block)

    ways = [together, lambda: one_by_one(fast), lambda: one_by_one(plain)]
    single = vectors.width(block) == 1  # needs no vmap, and is faster without it
    return _first_that_works(batch, *ways[1 if single else 0 :])


def vectors_at_once(model: Model, batch: Batch) -> int:
    """Return how many tangents may go through the model with this batch together."""
    bytes_each = max(1, model.bytes_per_example * len(batch))
    budget = BYTES_AT_ONCE.get(batch.targets.device.type, BYTES_AT_ONCE["cuda"])
    return max(1, min(MOST_VECTORS_AT_ONCE, budget // bytes_each))


def _stack(results: list[Result]) -> Result:
    if isinstance(results[0], Tensor):
        return torch.stack(results)
    return {name: torch.stack([result[name] for result in results]) for name in results[0]}


def _first_that_works(batch: Batch, *ways: Callable[[], Result]) -> Result:
    """Return what the first way gives that torch has rules and memory for."""
    for way in ways:
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="There is a performance drop", category=UserWarning)
                return way()
        except FastifError:
            raise
        except (RuntimeError, IndexError, TypeError) as error:
            reason = error
    if isinstance(reason, torch.OutOfMemoryError):
        raise reason
    raise ModelError(
        f"torch cannot take the derivatives of this module that influence needs, on examples {int(batch.ids[0])} to "
        f"{int(batch.ids[-1])} of {batch.source}. It said: {reason}. Replace the operation it names by one made of "
        "plain torch functions, or choose parameters above it with trainable=."
    ) from reason
