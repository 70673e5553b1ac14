"""The order in which a training sees its examples: drawn by a seed and an epoch, batches of about one length.

The draw is over all examples, whichever of them are trained on: two trainings that leave different ones out see the
others in the same order. Knows numbers of examples and their lengths, and no data.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from fastif.solvers.sampling import generator

CHUNK = 50  # batches whose examples are sorted by length: little padding, and still nearly any beside any other
SHUFFLE, ORDER = 1, 2  # what is drawn, as a part of the key of the draw


def bucketed(lengths: Tensor | None, total: int, batch_size: int, *, seed: int, epoch: int) -> Iterator[Tensor]:
    """Yield batches of all examples in an order drawn for this epoch, each of examples of about one length.

    >>> [len(ids) for ids in bucketed(None, 10, 4, seed=0, epoch=1)].count(4)
    2
    """
    batch_size = min(batch_size, max(1, total))  # any number is a size, and not any is one that torch can hold
    order = torch.randperm(total, generator=generator(seed, epoch, SHUFFLE))
    batches: list[Tensor] = []
    for chunk in order.split(CHUNK * batch_size):
        near = chunk if lengths is None else chunk[lengths[chunk].argsort(descending=True, stable=True)]
        batches += near.split(batch_size)
    for position in torch.randperm(len(batches), generator=generator(seed, epoch, ORDER)).tolist():
        yield batches[position]
