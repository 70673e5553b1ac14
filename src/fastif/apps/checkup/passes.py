"""How examples are cut into batches, the longest first, and how many padded tokens that makes. Knows no model."""

import torch
from torch import Tensor

from fastif.data import Examples


class Passes:
    """Some examples of a data set as one pass over them takes them.

    >>> data = Examples((torch.zeros(4, 2), torch.zeros(4)))
    >>> data.lengths = torch.tensor([3, 9, 1, 5])
    >>> over = Passes(data, data.everyone(), batch_size=2)
    >>> over.longest, over.tokens
    (tensor([1, 3]), 24)
    """

    def __init__(self, data: Examples, ids: Tensor, *, batch_size: int) -> None:
        self._lengths = torch.ones(len(data), dtype=torch.int64) if data.lengths is None else data.lengths
        self.batches: tuple[Tensor, ...] = tuple(ids[data.by_length(ids)].split(min(batch_size, len(data))))

    @property
    def longest(self) -> Tensor:
        """The batch of the longest examples."""
        return self.batches[0]

    @property
    def shortest(self) -> Tensor:
        """The shortest example."""
        return self.batches[-1][-1:]

    @property
    def typical(self) -> Tensor:
        """The batch in which half of all padded tokens are passed."""
        done = 0
        for ids in self.batches:
            done += self.padded(ids)
            if 2 * done >= self.tokens:
                return ids
        return self.batches[-1]

    @property
    def tokens(self) -> int:
        """The padded tokens of all batches; their examples, for data of one length."""
        return sum(map(self.padded, self.batches))

    def padded(self, ids: Tensor) -> int:
        """Return the padded tokens of one batch."""
        return len(ids) * int(self._lengths[ids].max())


def spread(ids: Tensor, count: int) -> Tensor:
    """Return some of a batch from its longest to its shortest, so that they are padded as it is."""
    return ids[torch.linspace(0, len(ids) - 1, count).round().long()]
