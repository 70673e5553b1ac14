"""Endings: what becomes of each row of a test set by the last step, and how sure a change is that is measured on them.

All repeats are measured on the same rows, so that repeats alone do not tell how sure a change is. Which rows a walk
gets right is seen at its end, whose weights are found by taking its steps again; a row is a pair with itself, before
and after or between two kinds. Knows walks and rows, and nothing of experiments.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fastif.apps.correction import Parameters, judge
from fastif.apps.iteration import Courses, Iteration
from fastif.evaluation import differentiated_once
from fastif.keeping import Keep, Tensors

START = "start"
Ends = dict[str, Tensors]  # by kind, and for the start: "accuracy" and "loss" of each row, (repeats, rows)
Group = tuple[Sequence[str], list[int]]  # walks that are averaged, and the rows that they are measured on
Row = dict[str, Any]


def ends_of(iteration: Iteration, courses: Courses, watched: str, keep: Keep) -> Ends:
    """Look at each row of a set that is watched, at the start and at the end of every walk."""
    examples = iteration.sets.watched[watched]

    def look(parameters: Parameters) -> Tensors:
        with differentiated_once():
            right, losses = judge(iteration.model, parameters, examples)
        return {"accuracy": right.double(), "loss": losses.double()}

    start = keep(f"rows of {watched} at the start", lambda: look(iteration.model.parameters))
    found: Ends = {}
    for kind, walks in courses.courses.items():
        seen = [
            keep(
                f"rows of {watched} after {kind}, repeat {one.repeat}",
                lambda kind=kind, one=one: look(iteration.parameters_after(kind, one.chosen)),  # type: ignore[misc]
            )
            for one in walks
        ]
        found[kind] = {measure: torch.stack([each[measure] for each in seen]) for measure in start}
        found[START] = {measure: values.expand(len(seen), -1) for measure, values in start.items()}
    return found


def joined(found: Sequence[Ends]) -> Ends:
    """Return the ends of walks from several models as repeats of one."""
    return {
        kind: {measure: torch.cat([each[kind][measure] for each in found]) for measure in values}
        for kind, values in found[0].items()
    }


def with_rows_error(row: Row, ends: Mapping[str, Ends], groups: Sequence[Group]) -> Row:
    """Return a change with the standard error that the rows make in it, `rows_error`, where there are rows enough.

    The change is the mean over groups, whose rows are not the same.
    """
    if not groups or min(len(ids) for _, ids in groups) < 2:
        return row
    squares = []
    for walks, ids in groups:
        differences = [_difference(ends[name], row)[ids] for name in walks]
        squares.append(float(torch.stack(differences).mean(dim=0).var()) / len(ids))
    return {**row, "rows_error": math.sqrt(sum(squares)) / len(squares)}


def _difference(ends: Ends, row: Row) -> Tensor:
    """Return for each row of the test set by how much one kind exceeds another, mean over repeats."""
    first, second = (ends[row[side]][row["measure"]].mean(dim=0) for side in ("first", "second"))
    return first - second
