r"""Products with the gradients of examples, which are formed from their factors a few at a time.

A gradient is as large as the weight. On a CPU no more of it is formed than its caches hold, for some outputs of a layer
and some examples: to write it to memory and read it again would cost about as much as the products. On a GPU as many
examples go together as a share of its memory holds. Knows factors; what is multiplied with them is not its business.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from fastif import memory
from fastif.capture import Outer
from fastif.precision import wide, wide_product

BYTES = 2**28  # of gradients at one time, where they cannot be cut by outputs
CACHED_BYTES = 2**24  # of gradients at one time on a CPU, of which the last cache is about as large
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
    total = directions.new_zeros(len(directions), len(factor.left), dtype=wide(directions.dtype))
    by_output = directions.reshape(len(directions), _outputs(factor), -1)
    for cut in _cuts(factor, outputs):
        some, parts = by_output[:, cut].flatten(1), _of_outputs(factor, cut).split(examples)
        total += torch.cat([wide_product(some, each.gradients()) for each in parts], dim=1)
    return total


def add_formed_sums(total: Tensor, factor: Outer, weights: Tensor, *, part: float) -> None:
    """Add to a contiguous total (K, ...) the sums of examples' gradients, with each of the weights (K, examples)."""
    outputs, examples = at_once(factor, part)
    by_output = total.view(len(total), _outputs(factor), -1)
    for cut in _cuts(factor, outputs):
        sums, parts = by_output[:, cut].view(len(total), -1), _of_outputs(factor, cut).split(examples)
        for each, theirs in zip(parts, weights.split(examples, dim=1), strict=True):
            sums.addmm_(theirs, each.gradients())


def at_once(factor: Outer, part: float, examples: int | None = None) -> tuple[int, int]:
    """Return for how many outputs of a layer, and for how many of the examples, gradients are formed together."""
    outputs, bytes_each = _outputs(factor), max(1, factor.right.shape[3] * factor.left.element_size())
    most = len(factor.left) if examples is None else examples
    if factor.left.is_cuda or factor.left.shape[2] > 1:
        fit = max(1, memory.share(factor.left.device, part, BYTES) // max(1, outputs * bytes_each))
        return outputs, min(most, fit // ALIGNED * ALIGNED or fit)
    together = max(1, min(ALIGNED, most, CACHED_BYTES // bytes_each))
    return min(outputs, max(1, CACHED_BYTES // (together * bytes_each))), together


def _outputs(factor: Outer) -> int:
    """Return how many outputs the layer has, of all groups."""
    return factor.left.shape[2] * factor.left.shape[3]


def _cuts(factor: Outer, outputs: int) -> Iterator[slice]:
    for start in range(0, _outputs(factor), outputs):
        yield slice(start, start + outputs)


def _of_outputs(factor: Outer, cut: slice) -> Outer:
    """Return the factor for some outputs alone; groups are not cut."""
    return factor if factor.left.shape[2] > 1 else replace(factor, left=factor.left[..., cut])
