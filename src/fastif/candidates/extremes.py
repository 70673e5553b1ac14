"""StrongestOnly: all training examples are scored, and of each query only the smallest and largest scores are held.

What is held does not grow with the training set, so that a scan of any length fits into memory. Knows values and
numbers of examples; how they are scored is asked for, as in selection.py.
"""

from typing import Any

import torch
from torch import Tensor

from fastif import vectors
from fastif.candidates.selection import Scan
from fastif.vectors import Block

BYTES = 2**28  # of scores that are held on the way


class StrongestOnly:
    """The `count` smallest and the `count` largest scores of each query; of equal ones those with smaller numbers.

    Args:
        chosen: the numbers of the examples that are scored; None for all.
        total: how many examples there are.
        count: how many are held of each end.
    """

    def __init__(self, chosen: Tensor | None, total: int, count: int) -> None:
        self._chosen, self._total, self._count = chosen, total, count
        self._ids: list[Tensor] = []

    def score(self, directions: Block, scan: Scan, *, first: int) -> Tensor:
        """Return what is held of the scores along each direction, in the order of the examples' numbers."""
        width = vectors.width(directions)
        together = max(1, BYTES // (width * vectors.dtype(directions).itemsize))
        scored = self._total if self._chosen is None else len(self._chosen)
        values = torch.empty(width, 0, dtype=vectors.dtype(directions))
        ids = torch.empty(width, 0, dtype=torch.int64)
        for start in range(0, scored, together):
            some = self._numbers(start, min(start + together, scored))
            # the scan hears of as many as there are, so that all of them at once are told from a list of them
            new = scan(directions, None if together >= scored and self._chosen is None else some)
            values = torch.cat([values, new], dim=1)
            ids = torch.cat([ids, some.expand(width, -1)], dim=1)
            held = [_ends(row, numbers, self._count) for row, numbers in zip(values, ids, strict=True)]
            values = torch.stack([row[where] for row, where in zip(values, held, strict=True)])
            ids = torch.stack([row[where] for row, where in zip(ids, held, strict=True)])
        self._ids.append(ids)
        return values

    def _numbers(self, start: int, stop: int) -> Tensor:
        return torch.arange(start, stop, device="cpu") if self._chosen is None else self._chosen[start:stop]

    def ids(self, queries: int) -> Tensor:
        """Return the numbers of what is held, (queries, K)."""
        return torch.cat(self._ids)[:queries]

    def provenance(self) -> dict[str, Any]:
        """Say what was scored, and what is held of it."""
        return {"candidates": "all" if self._chosen is None else "given", "held": f"{self._count} of each end"}


def _ends(values: Tensor, numbers: Tensor, count: int) -> Tensor:
    """Return the positions of the smallest and the largest values, in the order of their numbers."""
    if len(values) <= 2 * count:
        return torch.argsort(numbers)
    by_number = torch.argsort(numbers)
    held = torch.zeros(len(values), dtype=torch.bool)
    for sign in (1, -1):
        edge = (values * sign).kthvalue(count).values
        near = by_number[((values * sign)[by_number] <= edge)]
        held[near[torch.argsort((values * sign)[near], stable=True)][:count]] = True
    # where both ends took the same ones, as of many equal values, the first of the others make up the number
    missing = 2 * count - int(held.sum())
    held[by_number[~held[by_number]][:missing]] = True
    return by_number[held[by_number]]
