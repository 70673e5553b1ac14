"""Selection: the training examples that were chosen for some queries, and how their scores are gathered.

`SameForAll` has one list for every query, `PerQuery` one for each. Both ask for scores through a function
`scan(directions, ids)`, so that this file knows no model and no way of scoring.
"""

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from fastif import vectors
from fastif.candidates.recall import RecallEstimate
from fastif.vectors import Block

Scan = Callable[[Block, Tensor | None], Tensor]
"""Returns the score of the examples with these numbers (None: all) along every direction, (directions, ids)."""


class Selection(Protocol):
    """The candidates of some queries."""

    def score(self, directions: Block, scan: Scan, *, first: int) -> Tensor:
        """Return the scores of the candidates of the queries from number `first` on, one direction each."""

    def ids(self, queries: int) -> Tensor:
        """Return the numbers of the candidates, (queries, K)."""

    def provenance(self) -> dict[str, Any]:
        """Return how they were chosen, and what that may have missed."""


class SameForAll:
    """One list of candidates for every query; None stands for all training examples."""

    def __init__(self, chosen: Tensor | None, total: int) -> None:
        self._chosen = chosen
        self._total = total

    def score(self, directions: Block, scan: Scan, *, first: int) -> Tensor:
        """Return the scores in one scan."""
        return scan(directions, self._chosen)

    def ids(self, queries: int) -> Tensor:
        """Return the list, repeated without a copy."""
        one = torch.arange(self._total, device="cpu") if self._chosen is None else self._chosen
        return one.expand(queries, -1)

    def provenance(self) -> dict[str, Any]:
        """Say whether all were scored."""
        return {"candidates": "all" if self._chosen is None else "given"}


class PerQuery:
    """Candidates that differ by query; a random sample is scored beside them, to estimate what they miss."""

    def __init__(self, rows: Tensor, total: int, *, description: str, sample: int, seed: int) -> None:
        self._rows = rows
        self._description = description
        generator = torch.Generator("cpu").manual_seed(seed)
        self._sample = torch.randperm(total, generator=generator, device="cpu")[:sample].sort().values
        self._recall = RecallEstimate(total)

    def score(self, directions: Block, scan: Scan, *, first: int) -> Tensor:
        """Return the scores, in one scan where the queries have many candidates in common, else one for each query.

        A scan costs about one gradient for each example in it, so that the union of the candidates is the cheaper where
        it is small beside the sum of their numbers.
        """
        rows = self._rows[first : first + vectors.width(directions)]
        union = torch.cat([rows.flatten(), self._sample]).unique()
        if len(rows) == 1 or 2 * len(union) <= rows.numel():
            table = scan(directions, union)
            values = table.gather(1, torch.searchsorted(union, rows))
            sampled = table[:, torch.searchsorted(union, self._sample)]
        else:
            singles = [vectors.select(directions, slice(row, row + 1)) for row in range(len(rows))]
            values = torch.cat([scan(single, row) for single, row in zip(singles, rows, strict=True)])
            sampled = scan(directions, self._sample)
        self._recall.add(values, rows, sampled, self._sample)
        return values

    def ids(self, queries: int) -> Tensor:
        """Return the candidates of each query."""
        return self._rows[:queries]

    def provenance(self) -> dict[str, Any]:
        """Say how the candidates were chosen, and their estimated recall."""
        return {"candidates": self._description, "candidate_recall": self._recall.as_json()}
