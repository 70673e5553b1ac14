"""Whether a call may hand rows to other places than those of the examples they came from.

Sorting by length and undoing it, running layers on real tokens only, sending tokens to experts: the rows that a
captured layer is given are then in an order that the data makes, and may have the right shape. Calls that can do so are
told by name and by what they are given. They are no proof, as most of them leave the examples where they are:
forward.py looks at the rows of a batch in which one was seen. This file knows functions and tensors, and no plan.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

PACKING = {"_pack_padded_sequence", "_pad_packed_sequence"}
WHOLE = {"masked_select", "masked_scatter", "take", "index_put", "msort", "unique", "segment_reduce"}
ALONG = {  # and the place of `dim` among what they are given
    **dict.fromkeys(("index_select", "gather", "index_add", "index_copy", "index_reduce", "scatter"), 1),
    **dict.fromkeys(("scatter_add", "scatter_reduce", "sort"), 1),
    **dict.fromkeys(("topk", "take_along_dim", "repeat_interleave", "kthvalue"), 2),
}
APART = {  # examples one by one, which Python may put together in another order
    **dict.fromkeys(("unbind", "select", "narrow"), 1),
    **dict.fromkeys(("split", "chunk", "tensor_split", "split_with_sizes"), 2),
}
PRODUCTS = {"matmul", "mm"}


def may_rearrange(
    function: Callable[..., Any], arguments: Any, options: Any, examples: int, in_order: Sequence[Tensor] = ()
) -> bool:
    """Whether what has a gradient may lie in another order of its examples after this call than before.

    `in_order` are tensors that torch.arange made.
    """
    if examples < 2:
        return False
    name = getattr(function, "__name__", "")
    name = name.strip("_") if name.startswith("__") else name.removesuffix("_")
    if name in ("getitem", "setitem"):
        moved = arguments[0] if name == "getitem" else arguments[-1]
        return _is_moved(moved) and _picks(arguments[0], arguments[1], examples, in_order)
    if name == "embedding":
        name, arguments = "index_select", (*arguments[1:2], 0, arguments[0])
    tensors = list(_tensors((*arguments, *options.values())))
    if not any(map(_is_moved, tensors)):
        return False
    if name in PACKING or name in WHOLE:
        return True
    if name in ALONG:
        along = _dimension(arguments, options, ALONG[name], -1 if name in ("topk", "sort", "kthvalue") else 0)
        return any(_counts(tensor, along, examples) for tensor in tensors)
    if name in APART:
        return _dimension(arguments, options, APART[name], 0) == 0 and _counts(arguments[0], 0, examples)
    if name in PRODUCTS:  # with a matrix of which example goes where
        other = tensors[-1]
        return other.ndim == 2 and _is_moved(other) and _counts(other, 0, examples)
    return name == "einsum" and _contracts_examples(arguments, tensors, examples)


def _is_moved(value: Any) -> bool:
    """Whether a value carries a gradient from below; inside an autograd function nobody can tell."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return False
    return (value.requires_grad and not value.is_leaf) or not torch.is_grad_enabled()


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _counts(tensor: Any, dimension: Any, examples: int) -> bool:
    """Whether the examples may be counted in this dimension."""
    if not isinstance(tensor, Tensor) or not isinstance(dimension, int):
        return True
    if not -tensor.ndim <= dimension < tensor.ndim:
        return False
    return tensor.shape[dimension] % examples == 0


def _dimension(arguments: Any, options: Any, place: int, default: int) -> Any:
    return options.get("dim", arguments[place] if len(arguments) > place else default)


def _picks(tensor: Tensor, index: Any, examples: int, in_order: Sequence[Tensor]) -> bool:
    """Whether an index may pick among examples: with numbers that data may have made, or apart in the first dimension.

    The last token of each, `hidden[torch.arange(n), last]`, leaves every example where it is.
    """
    parts = index if isinstance(index, tuple) else (index,)
    dimension = 0
    for place, part in enumerate(parts):
        if part is None:
            continue
        if part is Ellipsis:
            dimension = tensor.ndim - sum(map(_span, parts[place + 1 :]))
            continue
        if (
            dimension == 0
            and len(tensor) == examples
            and any(part is each and len(each) == examples for each in in_order)
        ):
            return False
        by_numbers = not isinstance(part, int | slice)
        if by_numbers and any(_counts(tensor, dimension + more, examples) for more in range(_span(part))):
            return True
        if not by_numbers and dimension == 0 and part != slice(None) and _counts(tensor, 0, examples):
            return True
        dimension += _span(part)
    return False


def _span(part: Any) -> int:
    """Return how many dimensions a part of an index is for."""
    if part is None:
        return 0
    return max(1, part.ndim) if isinstance(part, Tensor) and part.dtype == torch.bool else 1


def _contracts_examples(arguments: Any, tensors: list[Tensor], examples: int) -> bool:
    """Whether a product written as letters sums over the first dimension of what has a gradient."""
    if not isinstance(arguments[0], str):
        return True
    given, _, result = arguments[0].replace(" ", "").partition("->")
    return any(
        _is_moved(tensor) and letters[:1] not in ("", ".", *result) and _counts(tensor, 0, examples)
        for letters, tensor in zip(given.split(","), tensors, strict=False)
    )
