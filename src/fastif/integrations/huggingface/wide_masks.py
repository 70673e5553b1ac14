"""Masks in the form that attention takes them in, so that transformers has nothing left to find out about them.

Of a mask with one row for each text, transformers asks whether anything is masked at all: a GPU has to stop and be
waited for, a CUDA graph cannot hold that, and `vmap` cannot either. Knows tensors, and no model.
"""

from collections.abc import Callable

import torch
from torch import Tensor

WideMask = Callable[[Tensor, Tensor], Tensor]


def kept(mask: Tensor, states: Tensor) -> Tensor:
    """Return a mask that is true where something may be looked at, as fused attention takes it."""
    return mask[:, None, None].bool()


def added(mask: Tensor, states: Tensor) -> Tensor:
    """Return what is added to the scores of attention, as plain attention does it: the lowest number where masked.

    >>> added(torch.tensor([[1, 0]]), torch.zeros(1)).tolist()
    [[[[-0.0, -3.4028234663852886e+38]]]]
    """
    lowest = torch.finfo(states.dtype).min
    return (1 - mask[:, None, None].to(states.dtype)) * lowest


WIDE_MASKS: tuple[WideMask, ...] = (kept, added)
