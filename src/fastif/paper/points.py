"""Evaluation points: so many that a model predicts right and so many that it predicts wrong, drawn by a seed."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fastif.errors import DataError
from fastif.integrations.huggingface import TextExamples
from fastif.integrations.tables import TextTable
from fastif.paper.models import TaskModel
from fastif.solvers.sampling import generator

RIGHT, WRONG = "right", "wrong"
KINDS = (RIGHT, WRONG)


@dataclass(frozen=True)
class Points:
    """Queries, those that are predicted right first.

    Args:
        table: their texts.
        examples: the same, as examples of the model.
        right: which of them are predicted right.
    """

    table: TextTable
    examples: TextExamples
    right: Tensor

    def __len__(self) -> int:
        return len(self.table)

    def of(self, kind: str) -> list[int]:
        """Return the places of those of one kind, "right" or "wrong"."""
        return (self.right if kind == RIGHT else ~self.right).nonzero()[:, 0].tolist()

    def part(self, start: int, stop: int) -> TextTable:
        """Return some of them as a table."""
        return self.table.take(range(start, min(stop, len(self))))

    def as_json(self) -> list[dict[str, Any]]:
        """Return which they are."""
        kinds = [KINDS[0] if right else KINDS[1] for right in self.right.tolist()]
        return [{**row, "prediction": kind} for row, kind in zip(self.table.rows(), kinds, strict=True)]


def choose_points(
    model: TaskModel, table: TextTable, *, right: int, wrong: int, seed: int = 0, allow_fewer: bool = False
) -> Points:
    """Draw points from a table by what the model predicts of them; fewer, if allowed, where there are not so many."""
    examples = model.examples(table)
    correct = model.is_right(examples)
    order = torch.randperm(len(table), generator=generator(seed, 7)).tolist()
    chosen: list[int] = []
    for wanted, kind in ((right, True), (wrong, False)):
        found = [row for row in order if bool(correct[row]) is kind][:wanted]
        if len(found) < wanted and not allow_fewer:
            raise DataError(
                f"{model.name} predicts {len(found)} of {len(table)} rows of {table.name} "
                f"{RIGHT if kind else WRONG}, and {wanted} are wanted. Take more rows, or fewer points."
            )
        chosen += found
    if not chosen:
        raise DataError(f"no row of {table.name} is predicted by {model.name} as it is wanted: there are no points.")
    some = table.take(chosen)
    return Points(some, model.examples(some), correct[chosen])


def some_wrong(model: TaskModel, table: TextTable, most: int, *, seed: int = 0) -> TextTable:
    """Draw rows that the model predicts wrong, or take all of these where there are no more."""
    correct = model.is_right(model.examples(table)) if len(table) else torch.empty(0, dtype=torch.bool)
    order = torch.randperm(len(table), generator=generator(seed, 8)).tolist()
    return table.take([row for row in order if not correct[row]][:most])
