r"""Gauss-Newton products from the factors of each example's gradients: no forward mode, and no gradient is formed.

The product is $\sum_i J_i^\top \Lambda_i J_i v$. One forward pass and a backward pass for each row of J give the
factors of all rows; $J_i v$ is a ghost product with them, and the sum over examples is one matrix product for each
weight. The loss of a softmax stays what it is where all outputs move together: its rows are the differences from
the last output. Examples and vectors may come in groups: a vector meets the matrix of its own group's examples alone.
Knows models and batches, and no data set.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fastif import memory
from fastif.batch import Batch
from fastif.capture import CaptureError, Factor, Lookup, Outer, Plan, run_forward
from fastif.derivatives import output_products
from fastif.model import Model
from fastif.vectors import Block

BYTES, PART = 2**28, 0.1  # what slopes times weights may take: on a CPU, and of a GPU's memory


def can_be_factored(plan: Plan) -> bool:
    """Whether the plan has all parameters, and none of them is a table that examples look up."""
    return not plan.rest and not any(signature[0] == "lookup" for signature in plan.signatures)


def factored_product(model: Model, batch: Batch, block: Block, plan: Plan, *, groups: int = 1) -> Block:
    """Return the product over a placed batch for every vector; batch and block are cut into `groups` equal parts."""
    forward = run_forward(model, batch, plan)
    outputs = forward.outputs
    rows = [
        _Row.of(forward.factors(outputs, direction.expand_as(outputs).contiguous(), keep=True))
        for direction in _directions(model, outputs)
    ]
    changes = torch.stack([_changes(row, block, groups) for row in rows], dim=-1)
    bends = _bends(model, outputs.detach(), batch, changes)
    return _sums(rows, list(bends.unbind(dim=-1)), block, groups)


def product_of_few(
    model: Model, batch: Batch, block: Block, plan: Plan, *, groups: int = 1, outputs_each: int
) -> Block:
    """Return the same by one backward pass through a batch with a copy for each row: half of the kernels.

    For a few examples, which a GPU is done with before the next kernel is launched. Copies lie side by side in a group.
    """
    copies = outputs_each - model.loss_is_softmax

    def repeated(tensor: Tensor) -> Tensor:
        cut: Tensor = tensor.unflatten(0, (groups, 1, -1))
        return cut.expand(groups, copies, *cut.shape[2:]).flatten(0, 2)

    forward = run_forward(model, batch.map(repeated), plan)
    by_copy = forward.outputs.unflatten(0, (groups, copies, -1))
    outputs = by_copy[:, 0].flatten(0, 1).detach()
    directions = _directions(model, outputs)
    if len(directions) != copies:
        raise CaptureError("the outputs are not those of a softmax over one dimension")
    weights = directions[None, :, None].expand_as(by_copy).reshape(forward.outputs.shape)
    row = _Row.of(forward.factors(forward.outputs, weights))
    changes = _changes(row, block, groups).unflatten(1, (groups, copies, -1))
    bends = _bends(model, outputs, batch, changes.transpose(2, 3).flatten(1, 2))
    return _sums([row], [bends.unflatten(1, (groups, -1)).transpose(2, 3).flatten(1)], block, groups)


def _directions(model: Model, outputs: Tensor) -> Tensor:
    """Return the directions in the outputs that rows are taken along, (rows, ...): a softmax has one fewer."""
    identity = torch.eye(outputs.numel() // len(outputs), dtype=outputs.dtype, device=outputs.device)
    if _has_contrasts(model, outputs):
        identity = identity[:-1] - identity[-1]
    return identity.view(-1, *outputs.shape[1:])


def _has_contrasts(model: Model, outputs: Tensor) -> bool:
    return model.loss_is_softmax and outputs.ndim == 2


def _bends(model: Model, outputs: Tensor, batch: Batch, changes: Tensor) -> Tensor:
    """Return how the loss bends along changes of the outputs, both (width, examples, rows)."""
    rows = changes.shape[-1]
    if _has_contrasts(model, outputs):
        changes = torch.nn.functional.pad(changes, (0, 1))
    return output_products(model, outputs, batch, changes)[..., :rows]


@dataclass(frozen=True)
class _Row:
    """A Jacobian row of each example: weights as factors, and all that is short (biases, gains) formed side by side."""

    outers: list[Outer]
    short: dict[str, int]  # how many numbers each of the short ones has, in their order
    formed: Tensor | None

    @classmethod
    def of(cls, factors: list[Factor]) -> "_Row":
        outers = [factor for factor in factors if isinstance(factor, Outer) and factor.left.shape[2] == 1]
        formed: dict[str, Tensor] = {}
        for factor in factors:
            if not (isinstance(factor, Outer) and factor.left.shape[2] == 1):
                part = _gradients(factor)
                formed[factor.name] = formed[factor.name] + part if factor.name in formed else part
        joined = torch.cat(list(formed.values()), dim=1) if formed else None
        return cls(outers, {name: part.shape[1] for name, part in formed.items()}, joined)


def _changes(row: _Row, block: Block, groups: int) -> Tensor:
    """Return the inner products of each example's gradient with the vectors of its group, (width, examples)."""
    products = [inner_products(factor, block[factor.name], groups) for factor in row.outers]
    if row.formed is not None:
        short = torch.cat([block[name].flatten(1) for name in row.short], dim=1)
        products.append(_formed_products(row.formed, short, groups))
    return torch.stack(products).sum(dim=0)


def _sums(rows: list[_Row], weights: list[Tensor], block: Block, groups: int) -> Block:
    """Return the sums of rows by their weights, as a block like the one given."""
    total: Block = {}
    for row, some in zip(rows, weights, strict=True):
        for factor in row.outers:
            add_weighted_sums(total, factor, some, groups)
        if row.formed is not None:
            summed = _formed_sums(row.formed, some, groups)
            for name, part in zip(row.short, summed.split(list(row.short.values()), dim=1), strict=True):
                total[name] = total[name] + part.view_as(total[name]) if name in total else part
    return {
        name: total[name].reshape(tensor.shape) if name in total else torch.zeros_like(tensor)
        for name, tensor in block.items()
    }


def inner_products(factor: Factor, some: Tensor, groups: int = 1) -> Tensor:
    """Return the inner products of each example's gradient with the vectors of its group, (width, examples)."""
    width = len(some) // groups
    if not isinstance(factor, Outer) or factor.left.shape[2] > 1:
        return _formed_products(_gradients(factor), some.flatten(1), groups)
    left, right = (side.flatten(1, 2).unflatten(0, (groups, -1)) for side in (factor.left, factor.right))
    matrices = some.reshape(groups, width, left.shape[-1], right.shape[-1])
    if left.shape[-1] > right.shape[-1]:  # pass the wider side through, and so keep the narrower
        left, right, matrices = right, left, matrices.mT
    through = right.flatten(1, 2) @ matrices.flatten(1, 2).mT  # (groups, positions, width * narrower)
    at_positions = through.unflatten(2, (width, -1)).mul_(left.flatten(1, 2)[:, :, None])
    each: Tensor = at_positions.unflatten(1, left.shape[1:3]).sum(dim=(2, 4))  # (groups, examples of a group, width)
    return each.movedim(2, 0).flatten(1)


def _formed_products(gradients: Tensor, some: Tensor, groups: int) -> Tensor:
    products: Tensor = some.unflatten(0, (groups, -1)) @ gradients.unflatten(0, (groups, -1)).mT
    return products.movedim(0, 1).flatten(1)


def _formed_sums(gradients: Tensor, weights: Tensor, groups: int) -> Tensor:
    by_group = weights.unflatten(1, (groups, -1)).transpose(0, 1)  # (groups, width, examples of a group)
    summed: Tensor = by_group @ gradients.unflatten(0, (groups, -1))
    return summed.flatten(0, 1)


def add_weighted_sums(total: Block, factor: Factor, weights: Tensor, groups: int = 1) -> None:
    """Add the weighted sums over the examples of each group of their gradients to the total of a parameter.

    That is (groups * width, entries), or (groups * width, *shape); what is missing in the total is put there.
    """
    known = total.get(factor.name)
    if not isinstance(factor, Outer) or factor.left.shape[2] > 1:
        summed = _formed_sums(_gradients(factor), weights, groups)
        total[factor.name] = summed if known is None else known + summed.view_as(known)
        return
    width = len(weights)
    left, right = (side.flatten(1, 2).unflatten(0, (groups, -1)) for side in (factor.left, factor.right))
    shape = (groups, width, left.shape[-1], right.shape[-1])
    sums = left.new_empty(shape) if known is None else known.view(shape)
    by_group = weights.unflatten(1, (groups, -1)).permute(1, 2, 0)  # (groups, examples of a group, width)
    at_once = max(1, memory.share(left.device, PART, BYTES) // left.nbytes)
    for start in range(0, width, at_once):
        some = slice(start, start + at_once)
        weighted = left[:, :, :, None] * by_group[:, :, None, some, None]
        # no copy of what is as large as the model, which would take as long as the product; beta=0 reads nothing
        part = weighted.flatten(1, 2).flatten(2).mT  # (groups, width * left, positions)
        sums[:, some].flatten(1, 2).baddbmm_(part, right.flatten(1, 2), beta=0 if known is None else 1)
    if known is None:
        total[factor.name] = sums.flatten(0, 1)


def _gradients(factor: Factor) -> Tensor:
    assert not isinstance(factor, Lookup)
    return factor.gradients()
