"""StrongestOnly: all training examples are scored, and of each query only the smallest and largest scores are held.

What is held does not grow with the training set, so that a scan of any length fits into memory. Knows values and
numbers of examples; how they are scored is asked for, as in selection.py.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fastif.candidates.selection import Scan
from fastif.errors import NonFiniteError
from fastif.vectors import Block

ScanEnds = Callable[[Block, Tensor | None, int], "Ends"]
"""Returns the strongest scores along every direction among the examples with these numbers (None: all)."""


class Ends:
    """The `count` smallest and the `count` largest of all values that were added to each row, and their numbers.

    Of equal values those with smaller numbers are held, so that the order in which they come changes nothing.

    >>> ends = Ends(1)
    >>> ends.add(torch.tensor([[3.0, 1.0]]), torch.tensor([[0, 1]]))
    >>> ends.add(torch.tensor([[2.0, 1.0]]), torch.tensor([[2, 3]]))
    >>> ends.values, ends.ids
    (tensor([[3., 1.]]), tensor([[0, 1]]))
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.values: Tensor = torch.empty(0, 0)
        self.ids: Tensor = torch.empty(0, 0, dtype=torch.int64)

    def add(self, values: Tensor, ids: Tensor) -> None:
        """Look at more values, (rows, some), and their numbers, of the same shape; what is held is kept by number."""
        _check_finite(values, ids)
        if self.values.numel():
            values, ids = torch.cat([self.values, values], dim=1), torch.cat([self.ids, ids], dim=1)
        held = [_ends(row, numbers, self.count) for row, numbers in zip(values, ids, strict=True)]
        self.values = torch.stack([row[where] for row, where in zip(values, held, strict=True)])
        self.ids = torch.stack([row[where] for row, where in zip(ids, held, strict=True)])


class StrongestOnly:
    """The `count` smallest and the `count` largest scores of each query, of chosen examples or of all (None)."""

    def __init__(self, chosen: Tensor | None, count: int, scan_ends: ScanEnds) -> None:
        self._chosen, self._count, self._scan_ends = chosen, count, scan_ends
        self._ids: list[Tensor] = []

    def score(self, directions: Block, scan: Scan, *, first: int) -> Tensor:
        """Return what is held of the scores along each direction, in the order of the examples' numbers."""
        found = self._scan_ends(directions, self._chosen, self._count)
        self._ids.append(found.ids)
        return found.values

    def ids(self, queries: int) -> Tensor:
        """Return the numbers of what is held, (queries, K)."""
        return torch.cat(self._ids)[:queries]

    def provenance(self) -> dict[str, Any]:
        """Say what was scored, and what is held of it."""
        return {"candidates": "all" if self._chosen is None else "given", "held": f"{self._count} of each end"}


def _check_finite(values: Tensor, ids: Tensor) -> None:
    """Raise for a score that is no number: it is neither among the smallest nor among the largest."""
    bad = (~torch.isfinite(values)).nonzero()
    if len(bad):
        row, column = bad[0].tolist()
        raise NonFiniteError(
            f"The score of training id {int(ids[row, column])} is {float(values[row, column])}. Look for a NaN in the "
            "weights or the data, or raise the damping."
        )


def _ends(values: Tensor, numbers: Tensor, count: int) -> Tensor:
    """Return the positions of the smallest and the largest values, in the order of their numbers."""
    if len(values) <= 2 * count:
        return torch.argsort(numbers)
    # of many values few can be held: what is sorted is no more than these, and their equals
    near = (values <= values.kthvalue(count).values) | (values >= values.kthvalue(len(values) - count + 1).values)
    some = near.nonzero().flatten()
    if len(some) < len(values):
        return some[_ends(values[some], numbers[some], count)]
    by_number = torch.argsort(numbers)
    held = torch.zeros(len(values), dtype=torch.bool)
    for strength in (values, -values):
        near = by_number[strength[by_number] <= strength.kthvalue(count).values]
        held[near[torch.argsort(strength[near], stable=True)][:count]] = True
    # where both ends took the same ones, as of many equal values, the first of the others make up the number
    missing = 2 * count - int(held.sum())
    held[by_number[~held[by_number]][:missing]] = True
    return by_number[held[by_number]]
