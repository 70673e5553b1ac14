r"""Score by gradients formed for a batch, layer by layer, and multiplied with all K directions as one matrix product.

$\nabla_b = \sum_t l_{bt} r_{bt}^\top$ costs as much as the layer's own backward pass, and does not depend on K; the
product with all directions then costs K/T of that each: about 2.9 + K/40 forward passes. Rows of a batch are taken a
few at a time where their gradients would not fit into the budget.
"""

from functools import partial

import torch
from torch import Tensor

from fastif import memory
from fastif.capture import Factor, Lookup, Outer
from fastif.scoring.captured import BYTES, PART, dense_product, scan_captured
from fastif.scoring.ghost import lookup_product

ALIGNED = 64  # examples at once are a multiple of this, as fast kernels want it


def gemm_product(factor: Factor, directions: Tensor) -> Tensor:
    """Return the inner products of the directions (K, ...) with each example's gradient: (K, B)."""
    if isinstance(factor, Lookup):
        return lookup_product(factor, directions)
    if not isinstance(factor, Outer):
        return dense_product(factor, directions)
    examples = len(factor.left)
    rows = max(1, memory.share(directions.device, PART, BYTES) // (directions[0].nbytes or 1))
    rows = rows // ALIGNED * ALIGNED or rows
    starts = range(0, examples, rows)
    return torch.cat([dense_product(factor.rows(start, start + rows), directions) for start in starts], dim=1)


scan = partial(scan_captured, gemm_product)
