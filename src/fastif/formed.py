r"""Products with the gradients of examples, which are formed from their factors a few at a time.

A gradient is as large as the weight. On a CPU no more of it is formed than its caches hold, for some outputs of a layer
and some examples: written to memory and read again it would take longer than the products. On a GPU as many examples
go together as a share of its memory holds. Knows factors; what is multiplied with them is not its business.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from fastif import memory
from fastif.capture import Outer
from fastif.precision import wide_product

BYTES = 2**28  # of gradients at one time, where they cannot be cut by outputs
CACHED_BYTES = 2**24  # of gradients at one time on a CPU
ALIGNED = 64  # examples at once are a multiple of this, as fast kernels want it


def formed_products(factor: Outer, directions: Tensor, *, part: float) -> Tensor:
    """Return the inner products of directions (K, ...) with each example's gradient, (K, examples).

    `part` is what gradients may take of a GPU's memory.

    >>> factor = Outer("w", torch.tensor([[[[1.0, 2.0]]]]), torch.tensor([[[[3.0]]]]))  # a gradient of 3, 6
    >>> formed_products(factor, torch.tensor([[[1.0], [1.0]], [[1.0], [0.0]]]), part=0.1)
    tensor([[9.],
            [3.]])
    """
    outputs, examples = at_once(factor, part)
    total: Tensor | None = None
    for cut in _cuts(factor, outputs):
        some = _by_outputs(factor, directions)[:, cut].flatten(1)
        parts = _of_outputs(factor, cut).split(examples)
        products = torch.cat([wide_product(some, each.gradients()) for each in parts], dim=1)
        total = products if total is None else total.add_(products)
    assert total is not None
    return total


def add_formed_sums(total: Tensor, factor: Outer, weights: Tensor, *, part: float) -> None:
    """Add to a total (K, ...) the sums of the examples' gradients, with each row of weights (K, examples)."""
    outputs, examples = at_once(factor, part)
    for cut in _cuts(factor, outputs):
        here = _by_outputs(factor, total)[:, cut]
        sums = here.flatten(1)  # a copy, unless these are all outputs
        parts = _of_outputs(factor, cut).split(examples)
        for each, theirs in zip(parts, weights.split(examples, dim=1), strict=True):
            sums.addmm_(theirs, each.gradients())
        if sums.data_ptr() != here.data_ptr():
            here.copy_(sums.view_as(here))


def at_once(factor: Outer, part: float) -> tuple[int, int]:
    """Return for how many outputs of a layer, and for how many examples, gradients are formed together."""
    groups, outputs, inputs = *factor.left.shape[2:], factor.right.shape[3]
    bytes_each = max(1, inputs * factor.left.element_size())  # of one output
    if factor.left.is_cuda or groups > 1:
        examples = max(1, memory.share(factor.left.device, part, BYTES) // (groups * outputs * bytes_each))
        return groups * outputs, examples // ALIGNED * ALIGNED or examples
    examples = max(1, min(ALIGNED, len(factor.left), CACHED_BYTES // bytes_each))
    return max(1, CACHED_BYTES // (examples * bytes_each)), examples


def _cuts(factor: Outer, outputs: int) -> Iterator[slice]:
    for start in range(0, factor.left.shape[2] * factor.left.shape[3], outputs):
        yield slice(start, start + outputs)


def _by_outputs(factor: Outer, tensor: Tensor) -> Tensor:
    """Return what has the shape of weights as (K, outputs, inputs)."""
    return tensor.view(len(tensor), -1, factor.right.shape[3])


def _of_outputs(factor: Outer, cut: slice) -> Outer:
    """Return the factor for some outputs alone."""
    return factor if factor.left.shape[2] > 1 else replace(factor, left=factor.left[..., cut])
