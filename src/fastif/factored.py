r"""Gauss-Newton products from the factors of each example's gradients: no forward mode, and no gradient is formed.

The product is $\sum_i J_i^\top \Lambda_i J_i v$. One forward pass and a backward pass for each row of J give the
factors of all rows; $J_i v$ is a ghost product with them, and the sum over examples is one matrix product for each
weight. The loss of a softmax stays what it is where all outputs move together: its rows are the differences from
the last output. Examples and vectors may come in groups: a vector meets the matrix of its own group's examples alone.
Knows models and batches, and no data set.
"""

import torch
from torch import Tensor

from fastif.batch import Batch
from fastif.capture import Factor, Lookup, Outer, Plan, run_forward
from fastif.derivatives import output_products
from fastif.model import Model
from fastif.vectors import Block


def can_be_factored(plan: Plan) -> bool:
    """Whether the plan has all parameters, and none of them is a table that examples look up."""
    return not plan.rest and not any(signature[0] == "lookup" for signature in plan.signatures)


def factored_product(model: Model, batch: Batch, block: Block, plan: Plan, *, groups: int = 1) -> Block:
    """Return the product over a placed batch for every vector; batch and block are cut into `groups` equal parts."""
    forward = run_forward(model, batch, plan)
    outputs = forward.outputs
    flat = outputs.flatten(1) if outputs.ndim > 1 else outputs[:, None]
    count = flat.shape[1]
    contrasts = model.loss_is_softmax and outputs.ndim == 2
    rows = []
    for row in range(count - contrasts):
        weights = torch.zeros_like(flat)
        weights[:, row] = 1.0
        if contrasts:
            weights[:, -1] = -1.0
        rows.append(forward.factors(outputs, weights.view_as(outputs), keep=True))
    changes = torch.stack([_changes(factors, block, groups) for factors in rows], dim=-1)  # (width, examples, rows)
    if contrasts:
        changes = torch.nn.functional.pad(changes, (0, 1))
    bend = output_products(model, outputs.detach(), batch, changes)
    total: Block = {}
    for row, factors in enumerate(rows):
        for factor in factors:
            part = _total(factor, bend[..., row], groups)
            total[factor.name] = total[factor.name] + part if factor.name in total else part
    return {
        name: total[name].view_as(tensor) if name in total else torch.zeros_like(tensor)
        for name, tensor in block.items()
    }


def _changes(factors: list[Factor], block: Block, groups: int) -> Tensor:
    """Return the inner products of each example's gradient with the vectors of its group, (width, examples)."""
    products = [_inner(factor, block[factor.name], groups) for factor in factors]
    return torch.stack(products).sum(dim=0)


def _inner(factor: Factor, some: Tensor, groups: int) -> Tensor:
    width = len(some) // groups
    if not isinstance(factor, Outer) or factor.left.shape[2] > 1:
        gradients = _gradients(factor).unflatten(0, (groups, -1))
        products: Tensor = some.reshape(groups, width, -1) @ gradients.mT
        return products.movedim(0, 1).flatten(1)
    left, right = (side.flatten(1, 2).unflatten(0, (groups, -1)) for side in (factor.left, factor.right))
    matrices = some.reshape(groups, width, left.shape[-1], right.shape[-1])
    if left.shape[-1] > right.shape[-1]:  # pass the wider side through, and so keep the narrower
        left, right, matrices = right, left, matrices.mT
    through = right.flatten(1, 2) @ matrices.flatten(1, 2).mT  # (groups, positions, width * narrower)
    at_positions = (through.unflatten(2, (width, -1)) * left.flatten(1, 2)[:, :, None]).sum(dim=3)
    each: Tensor = at_positions.unflatten(1, left.shape[1:3]).sum(dim=2)
    return each.movedim(2, 0).flatten(1)


def _total(factor: Factor, weights: Tensor, groups: int) -> Tensor:
    """Return the weighted sums over the examples of each group of their gradients, (groups * width, entries)."""
    width = len(weights)
    by_group = weights.unflatten(1, (groups, -1)).transpose(0, 1)  # (groups, width, examples of a group)
    if not isinstance(factor, Outer) or factor.left.shape[2] > 1:
        summed: Tensor = by_group @ _gradients(factor).unflatten(0, (groups, -1))
        return summed.flatten(0, 1)
    left, right = (side.flatten(1, 2).unflatten(0, (groups, -1)) for side in (factor.left, factor.right))
    narrow, wide, turned = (left, right, False) if left.shape[-1] <= right.shape[-1] else (right, left, True)
    sums = []
    for number in range(width):
        weighted = (narrow * by_group[:, number, :, None, None]).flatten(1, 2)
        product = weighted.mT @ wide.flatten(1, 2)
        sums.append((product.mT if turned else product).flatten(1))
    return torch.stack(sums, dim=1).flatten(0, 1)


def _gradients(factor: Factor) -> Tensor:
    assert not isinstance(factor, Lookup)
    return factor.gradients()
