"""What the settings of the paper's solver came to: rows of time and error, and the same in words. Knows no model."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from fastif.apps.answers import ALL, groups


@dataclass(frozen=True)
class Setting:
    """One setting in one group of queries: relative errors against both references, and the time of one query."""

    batch_size: int
    repeats: int
    depth: int
    group: str
    to_expensive: float
    to_expensive_deviation: float | None
    to_converged: float
    to_converged_deviation: float | None
    seconds: float
    queries: int


@dataclass(frozen=True)
class Traded:
    """Time and error over J, B and T.

    Args:
        depths: J.
        batch_sizes: B.
        repeats: T.
        damping: damp x scale.
        examples: that H is the mean over.
        to_expensive: relative error against the most expensive setting, (B, T, J, queries).
        to_converged: against the converged solution.
        no_solve: that of the gradient divided by the damping, against the converged solution, (queries,).
        seconds: of one query alone, (B, T, J).
        right: whether the model is right about each query.
    """

    depths: tuple[int, ...]
    batch_sizes: tuple[int, ...]
    repeats: tuple[int, ...]
    damping: float
    examples: int
    to_expensive: Tensor
    to_converged: Tensor
    no_solve: Tensor
    seconds: Tensor
    right: tuple[bool | None, ...]

    def rows(self) -> list[Setting]:
        """Return every setting, for each group of queries and for all."""
        several = groups(self.right)
        members = several if ALL in several else {**several, ALL: torch.arange(len(self.right))}
        return [
            self._row(place, group, some)
            for group, some in members.items()
            for place in torch.cartesian_prod(
                *(torch.arange(len(each)) for each in (self.batch_sizes, self.repeats, self.depths))
            )
            .reshape(-1, 3)
            .tolist()
        ]

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return {
            "damping": self.damping,
            "examples": self.examples,
            "queries": [
                {"right": right, "no_solve": float(self.no_solve[row])} for row, right in enumerate(self.right)
            ],
            "no_solve": float(self.no_solve.mean()),
            "rows": [asdict(row) for row in self.rows()],
            "summary": self.in_words(),
        }

    def in_words(self) -> list[str]:
        """Return in plain sentences what was seen."""
        every = [row for row in self.rows() if row.group == ALL]
        cheapest, dearest = (self._at(every, pick) for pick in (0, -1))
        told = [
            f"At a damping of {self.damping:g}, the dearest setting (J {dearest.depth}, B {dearest.batch_size}, T "
            f"{dearest.repeats}: {dearest.seconds:.2f} s a query) is off the converged solution by "
            f"{dearest.to_converged:.1%}, the cheapest (J {cheapest.depth}, B {cheapest.batch_size}, T "
            f"{cheapest.repeats}: {cheapest.seconds:.2f} s) by {cheapest.to_converged:.1%}; with no solve at all, the "
            f"gradient divided by the damping is off by {float(self.no_solve.mean()):.1%}."
        ]
        if cheapest is not dearest:
            told.append(
                f"Against the dearest setting, as the paper measures it, the cheapest is off by "
                f"{cheapest.to_expensive:.1%}, at 1/{dearest.seconds / cheapest.seconds:.0f} of its time."
            )
        told += self._repeats_in_words(every)
        good = [row for row in every if row.to_converged <= 2 * dearest.to_converged]
        fast = min(good, key=lambda row: row.seconds)
        told.append(
            f"The fastest setting with at most twice the error of the dearest is J {fast.depth}, B {fast.batch_size}, "
            f"T {fast.repeats}: {fast.to_converged:.1%} in {fast.seconds:.2f} s."
        )
        return told

    def _repeats_in_words(self, every: list[Setting]) -> list[str]:
        if len(self.repeats) < 2:
            return []
        few, many = (
            next(
                row
                for row in every
                if (row.batch_size, row.repeats, row.depth) == (self.batch_sizes[0], repeats, self.depths[-1])
            )
            for repeats in (self.repeats[0], self.repeats[-1])
        )
        return [
            f"With batches of {few.batch_size}, {many.repeats} repeats in the place of {few.repeats} bring the error "
            f"against the converged solution from {few.to_converged:.1%} to {many.to_converged:.1%}."
        ]

    def _at(self, every: list[Setting], pick: int) -> Setting:
        wanted = (self.batch_sizes[pick], self.repeats[pick], self.depths[pick])
        return next(row for row in every if (row.batch_size, row.repeats, row.depth) == wanted)

    def _row(self, place: list[int], group: str, some: Tensor) -> Setting:
        size, repeat, depth = place
        expensive, converged = (each[size, repeat, depth][some] for each in (self.to_expensive, self.to_converged))
        return Setting(
            batch_size=self.batch_sizes[size],
            repeats=self.repeats[repeat],
            depth=self.depths[depth],
            group=group,
            to_expensive=float(expensive.mean()),
            to_expensive_deviation=_deviation(expensive),
            to_converged=float(converged.mean()),
            to_converged_deviation=_deviation(converged),
            seconds=float(self.seconds[size, repeat, depth]),
            queries=len(some),
        )


def _deviation(values: Tensor) -> float | None:
    return float(values.std()) if len(values) > 1 else None
