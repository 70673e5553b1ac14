r"""Score by ghost products: $\langle S, \sum_t l_t r_t^\top \rangle = \sum_t l_t \cdot (S r_t)$, no gradient is formed.

One forward and one backward pass are shared by all directions, and each direction costs one product with S at every
position: about 1.9 + K forward passes. Biases and gains have gradients as small as the activations; they are formed.
"""

from functools import partial

import torch
from torch import Tensor

from fastif import memory
from fastif.capture import Factor, Lookup, Outer
from fastif.precision import wide
from fastif.scoring.captured import PART, dense_product, scan_captured

CHUNK = 2**21  # numbers in an intermediate result on a CPU: more would leave its caches


def ghost_product(factor: Factor, directions: Tensor) -> Tensor:
    """Return the inner products of the directions (K, ...) with each example's gradient: (K, B)."""
    if isinstance(factor, Lookup):
        return lookup_product(factor, directions)
    if isinstance(factor, Outer) and factor.left.shape[2] == 1:
        return _outer_product(factor, directions.reshape(len(directions), factor.left.shape[3], -1))
    return dense_product(factor, directions)


def lookup_product(factor: Lookup, directions: Tensor) -> Tensor:
    r"""Return $\sum_t g_t \cdot S[i_t]$; the gradient itself would be a whole table for each example."""
    ids, slopes = factor.ids.flatten(), factor.slopes.flatten(0, 1)
    some_at_once = directions.split(at_once(slopes))
    products = [(some.index_select(1, ids) * slopes).sum(dim=2, dtype=wide(slopes.dtype)) for some in some_at_once]
    return torch.cat(products).reshape(-1, *factor.ids.shape).sum(dim=2)


def at_once(result: Tensor) -> int:
    """Return for how many directions an intermediate result of this size may be made together."""
    numbers = memory.share(result.device, PART, CHUNK * result.element_size()) // result.element_size()
    return max(1, numbers // max(1, result.numel()))


def _outer_product(factor: Outer, directions: Tensor) -> Tensor:
    left, right = factor.left.flatten(0, 2), factor.right.flatten(0, 2)
    if left.shape[1] > right.shape[1]:  # pass the wider side through S, and so keep the narrower
        left, right, directions = right, left, directions.mT
    parts = [_through(left, right, some) for some in directions.split(at_once(left))]
    return torch.cat(parts, dim=1).reshape(len(factor.left), -1, len(directions)).sum(dim=1).T


def _through(left: Tensor, right: Tensor, directions: Tensor) -> Tensor:
    """Return left . (S right) at every position, for every S: (positions, K)."""
    through: Tensor = (right @ directions.flatten(0, 1).T).unflatten(1, directions.shape[:2])
    return (through * left[:, None]).sum(dim=2, dtype=wide(left.dtype))


scan = partial(scan_captured, ghost_product)
