"""Suspected labels: the rows of `fastif audit`, matched to the training examples of a run.

A suspect belongs to the row with the same line and the same text; what matches no row is of other data, and an error.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastif.errors import DataError
from fastif.web.names import ClassNames, name_of
from fastif.web.source import Row


@dataclass(frozen=True)
class Suspect:
    """A training example whose label may be wrong, and the label that the model would give without it."""

    train: int
    suggested: str | None
    probability: float | None
    loss_without: float | None


def match_suspects(suspects: Sequence[Row], train: Sequence[Row], classes: ClassNames) -> list[Suspect]:
    """Return the suspects in their order, by the numbers of their training examples."""
    if not suspects:
        return []
    lines = {str(row.get("line", row.get("row"))): index for index, row in enumerate(train)}
    matched = []
    for row in suspects:
        index = lines.get(str(row.get("line")))
        if index is None or str(train[index]["text"]) != str(row.get("text")):
            raise DataError(
                f"the audit lists line {row.get('line')} with a text that the training data of the run does not have "
                "there, so that the two are of different data. Run fastif audit on the data of this run."
            )
        matched.append(
            Suspect(
                index,
                classes.of(row.get("suggested_label")) if name_of(row.get("suggested_label")) else None,
                _number(row.get("suggested_probability")),
                _number(row.get("loss_without")),
            )
        )
    return matched


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
