"""Which of several processes holds which examples, and what they can be asked to do together.

Examples are cut into chunks by their numbers, and chunks are dealt out in turn. Where a chunk ends depends on the
number of examples alone, so that what was finished with two processes is of use to three. Knows numbers; what the
processes are and how they talk is the business of distributed/.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

Block = dict[str, Tensor]  # of vectors.py

CHUNKS, MOST_IN_A_CHUNK = 64, 8192
FEW_CHUNKS, ENOUGH_IN_A_CHUNK = 16, 256  # a chunk of a few batches wastes little on short texts beside long ones


@dataclass(frozen=True)
class Share:
    """What one of several processes holds of `total` examples.

    >>> import torch
    >>> [Share(rank, 2, total=5).of(torch.arange(5)).tolist() for rank in range(2)]
    [[0, 2, 4], [1, 3]]
    """

    rank: int
    ranks: int
    total: int

    @property
    def chunk(self) -> int:
        """How many examples a chunk has, but for the last."""
        many, few = (-(-self.total // chunks) for chunks in (CHUNKS, FEW_CHUNKS))
        return max(1, min(MOST_IN_A_CHUNK, max(many, min(few, ENOUGH_IN_A_CHUNK))))

    def owners(self, ids: Tensor) -> Tensor:
        """Return the rank that holds each of these examples."""
        return (ids // self.chunk) % self.ranks

    def of(self, ids: Tensor) -> Tensor:
        """Return those of these examples that this process holds."""
        return ids[self.owners(ids) == self.rank]

    def chunks(self, ids: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Yield these examples chunk by chunk, as (the rank that holds it, positions in `ids`)."""
        numbers = ids // self.chunk
        order = numbers.argsort(stable=True)
        found, counts = numbers[order].unique_consecutive(return_counts=True)
        for number, positions in zip(found.tolist(), order.split(counts.tolist()), strict=True):
            yield number % self.ranks, positions


class Helpers(Protocol):
    """Other processes with shares of the same data, as the one that leads them sees them."""

    def product(self, operator: Any, way: Any, block: Block) -> Block:
        """Return the sum over all examples of an operator of their curvature times each vector of a block."""

    def repeats(self, solver: Any, operator: Any, block: Block, **given: float) -> Block:
        """Return the iterates of all repeats of a solver that draws at random, repeats first."""
