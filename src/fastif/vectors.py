"""Arithmetic on blocks of parameter vectors.

A parameter vector is a `dict[str, Tensor]`, one tensor for each chosen parameter. A *block* is K of them: the same
dictionary with one more dimension in front of every tensor. Solvers and scorers work on blocks, so that many queries
share each pass over the data; a single vector is a block of one. This file knows nothing of models.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

SHORT = 2**17  # numbers: below this, launching a kernel takes longer than its work

Vector = dict[str, Tensor]
Block = dict[str, Tensor]


def size(vector: Mapping[str, Tensor]) -> int:
    """Return p, the number of entries of a parameter vector (not of a block)."""
    return sum(tensor.numel() for tensor in vector.values())


def width(block: Mapping[str, Tensor]) -> int:
    """Return K, the number of vectors in a block."""
    return next(iter(block.values())).shape[0]


def dtype(block: Mapping[str, Tensor]) -> torch.dtype:
    """Return the dtype, which all tensors of a vector or block share."""
    return next(iter(block.values())).dtype


def flatten(block: Mapping[str, Tensor]) -> Tensor:
    """Return the block as a (K, p) matrix, its parameters side by side in the order of the dictionary.

    >>> flatten({"a": torch.tensor([[1.0, 2.0]]), "b": torch.tensor([[[3.0], [4.0]]])})
    tensor([[1., 2., 3., 4.]])
    """
    return torch.cat([as_rows(tensor) for tensor in block.values()], dim=1)


def as_rows(tensor: Tensor) -> Tensor:
    """Return the K tensors of one parameter as rows of a matrix; of a parameter without dimensions, one number each.

    >>> as_rows(torch.zeros(2, 3, 4)).shape, as_rows(torch.zeros(2)).shape
    (torch.Size([2, 12]), torch.Size([2, 1]))
    """
    return tensor.flatten(1) if tensor.ndim > 1 else tensor[:, None]


def unflatten(matrix: Tensor, like: Mapping[str, Tensor]) -> Block:
    """Return the rows of a (K, p) matrix as a block, with names, shapes, dtypes and devices of the vector `like`.

    >>> unflatten(torch.tensor([[1.0, 2.0, 3.0]]), {"a": torch.zeros(1), "b": torch.zeros(2)})
    {'a': tensor([[1.]]), 'b': tensor([[2., 3.]])}
    """
    pieces = matrix.split([tensor.numel() for tensor in like.values()], dim=1)
    return {
        name: piece.reshape(-1, *tensor.shape).to(tensor)
        for (name, tensor), piece in zip(like.items(), pieces, strict=True)
    }


def dot(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> Tensor:
    """Return the K inner products of two blocks, vector by vector.

    >>> dot({"a": torch.tensor([[1.0, 2.0], [0.0, 1.0]])}, {"a": torch.tensor([[3.0, 4.0], [5.0, 6.0]])})
    tensor([11.,  6.])
    """
    products = [as_rows(left[name] * right[name]).sum(dim=1) for name in left]
    return torch.stack(products).sum(dim=0)


def norm(block: Mapping[str, Tensor]) -> Tensor:
    """Return the K Euclidean norms of a block."""
    return dot(block, block).sqrt()


def scale(block: Mapping[str, Tensor], factors: Tensor | float) -> Block:
    """Multiply each vector by its own factor, or all by one number."""
    return {name: _spread(factors, tensor) * tensor for name, tensor in block.items()}


def add(left: Mapping[str, Tensor], right: Mapping[str, Tensor], factors: Tensor | float = 1.0) -> Block:
    """Return `left + factors * right`, the factors one for each vector or one for all.

    >>> add({"a": torch.tensor([[1.0], [1.0]])}, {"a": torch.tensor([[2.0], [2.0]])}, torch.tensor([1.0, -1.0]))
    {'a': tensor([[ 3.],
            [-1.]])}
    """
    return {name: tensor + _spread(factors, tensor) * right[name] for name, tensor in left.items()}


def advance(state: Block, kept: float, one: Block, other: Block, of_other: float) -> None:
    """Make the state `kept * state + one + of_other * other`, in place: what is large is read as few times as may be.

    `one` is what `shared` makes, which is added to every equal part of the state.

    >>> state, one = {"a": torch.tensor([[1.0], [3.0]])}, shared({"a": torch.tensor([[2.0]])}, 2)
    >>> advance(state, 0.5, one, {"a": torch.tensor([[4.0], [0.0]])}, 0.25)
    >>> state["a"].tolist()
    [[3.5], [3.5]]
    """
    short = [name for name, tensor in state.items() if tensor.numel() < SHORT]
    for name in state.keys() - set(short):
        parts = state[name].unflatten(0, (-1, len(one[name])))
        torch.add(one[name], parts, alpha=kept, out=parts)
        state[name].add_(other[name], alpha=of_other)
    if short:  # as few kernels for all of them
        states, ones, others = ([block[name] for name in short] for block in (state, one, other))
        torch._foreach_mul_(states, kept)
        torch._foreach_add_(states, ones)
        torch._foreach_add_(states, others, alpha=of_other)


def shared(block: Mapping[str, Tensor], parts: int) -> Block:
    """Return what is the same for so many equal parts of a state: once where that is long, and repeated where short."""
    return {
        name: tensor if parts * tensor.numel() >= SHORT else tensor.repeat(parts, *[1] * (tensor.ndim - 1))
        for name, tensor in block.items()
    }


def repeated(block: Mapping[str, Tensor], times: int) -> Block:
    """Return a block of all vectors, so many times one after another."""
    return {name: tensor.repeat(times, *[1] * (tensor.ndim - 1)) for name, tensor in block.items()}


def select(block: Mapping[str, Tensor], which: Tensor | slice) -> Block:
    """Return some of the vectors of a block, chosen by a mask, by indices or by a slice."""
    return {name: tensor[which] for name, tensor in block.items()}


def join(blocks: Sequence[Mapping[str, Tensor]]) -> Block:
    """Return the vectors of several blocks as one block."""
    return {name: torch.cat([block[name] for block in blocks]) for name in blocks[0]}


def gather(blocks: Sequence[Block]) -> Block:
    """Return the vectors of several blocks as one, of which the given blocks become parts: nothing is held twice.

    >>> one, two = {"a": torch.tensor([[1.0]])}, {"a": torch.tensor([[2.0]])}
    >>> whole = gather([one, two])
    >>> whole["a"].tolist(), whole["a"].data_ptr() == one["a"].data_ptr()
    ([[1.0], [2.0]], True)
    """
    if len(blocks) == 1:
        return dict(blocks[0])
    widths, whole = [width(block) for block in blocks], {}
    for name in blocks[0]:  # one after another, so that what was copied is let go before the next
        whole[name] = torch.cat([block[name] for block in blocks])
        for block, part in zip(blocks, whole[name].split(widths), strict=True):
            block[name] = part
    return whole


def mean(block: Mapping[str, Tensor]) -> Block:
    """Return the mean of the vectors of a block, as a block of one."""
    return {name: tensor.mean(dim=0, keepdim=True) for name, tensor in block.items()}


def random(like: Mapping[str, Tensor], count: int, *, seed: int, draw: Callable[..., Tensor] = torch.randn) -> Block:
    """Draw a block of `count` random vectors, by default Gaussian; the same on every device."""
    generator = torch.Generator("cpu").manual_seed(seed)
    return {
        name: draw((count, *tensor.shape), generator=generator, dtype=tensor.dtype, device="cpu").to(tensor.device)
        for name, tensor in like.items()
    }


def _spread(factors: Tensor | float, tensor: Tensor) -> Tensor | float:
    """Give K factors the dimensions of a tensor of K vectors."""
    if isinstance(factors, Tensor) and factors.ndim == 1:
        return factors.reshape(-1, *[1] * (tensor.ndim - 1))
    return factors
