"""Ragged: rows of unequal number for each example, one after another in one tensor; padded batches are cut from it.

Token ids, masks and hidden states are kept so, at their true length, wherever they lie. Knows tensors alone.
"""

import torch
from torch import Tensor


class Ragged:
    """Rows of all examples, one after another.

    Args:
        rows: (rows of all examples, ...), on any device.
        lengths: how many rows each example has, int64 on the CPU.

    >>> Ragged(torch.tensor([1, 2, 3, 4, 5]), torch.tensor([2, 3])).batch(torch.tensor([1, 0]))
    tensor([[3, 4, 5],
            [1, 2, 0]])
    """

    def __init__(self, rows: Tensor, lengths: Tensor) -> None:
        self.rows, self.lengths = rows, lengths
        self._starts = (lengths.cumsum(0) - lengths).to(rows.device)
        self._lengths = lengths.to(rows.device)

    def to(self, device: torch.device) -> "Ragged":
        """Return the same on another device."""
        return Ragged(self.rows.to(device), self.lengths)

    def longest(self, ids: Tensor, multiple: int = 1) -> int:
        """Return how long a batch of these examples is, rounded up to a multiple."""
        return -(-int(self.lengths[ids].max()) // multiple) * multiple

    def batch(self, ids: Tensor, *, length: int | None = None, fill: float = 0) -> Tensor:
        """Return (len(ids), length, ...), what an example does not have filled in; nothing here waits for a device."""
        index, kept = self._places(ids, length)
        index.clamp_(max=len(self.rows) - 1)
        if self.rows.is_cuda:
            padded = self.rows[index]
            return padded.masked_fill_(~kept.view(*kept.shape, *[1] * (padded.ndim - 2)), fill)
        return self._gathered(index.flatten(), (~kept).flatten(), fill).view(*index.shape, *self.rows.shape[1:])

    def _gathered(self, index: Tensor, missing: Tensor, fill: float) -> Tensor:
        """Return rows of main memory in one pass, for a GPU in memory from which it can read while it computes."""
        pinned = torch.cuda.is_available()
        out = torch.empty((len(index), *self.rows.shape[1:]), dtype=self.rows.dtype, pin_memory=pinned)
        torch.index_select(self.rows, 0, index, out=out)
        return out.index_fill_(0, missing.nonzero()[:, 0], fill)

    def row(self, index: int) -> Tensor:
        """Return the rows of one example."""
        start = int(self._starts[index])
        return self.rows[start : start + int(self.lengths[index])]

    def put(self, ids: Tensor, padded: Tensor) -> None:
        """Write the rows of some examples, given as a padded batch."""
        index, kept = self._places(ids, padded.shape[1])
        self.rows[index[kept]] = padded[kept.to(padded.device)].to(self.rows)  # without what is only padding

    def _places(self, ids: Tensor, length: int | None) -> tuple[Tensor, Tensor]:
        device = self.rows.device
        # from pinned memory, as a copy from any other waits for all that the GPU has to do before it
        chosen = ids.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else ids
        positions = torch.arange(self.longest(ids) if length is None else length, device=device)
        return self._starts[chosen][:, None] + positions, positions < self._lengths[chosen][:, None]
