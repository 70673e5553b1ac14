"""A few examples that stand for all: what is found right on them is taken to be right everywhere.

The first few of a data set may be alike (all of full length, all of one class). These lie far apart in it, and where
lengths are known the shortest and the longest are among them; they come in no order of length.
"""

import torch
from torch import Tensor


def spread(total: int, count: int, lengths: Tensor | None = None) -> Tensor:
    """Return the positions of at most `count` among `total` examples, which have these lengths.

    >>> spread(100, 4).tolist(), spread(5, 3, torch.tensor([2, 9, 4, 7, 3])).tolist()
    ([33, 99, 0, 66], [2, 0, 1])
    """
    chosen = torch.linspace(0, total - 1, min(count, total), dtype=torch.float64, device="cpu").long()
    mixed = torch.cat([chosen[1::2], chosen[::2]])
    return mixed if lengths is None else lengths.argsort(stable=True)[mixed]
