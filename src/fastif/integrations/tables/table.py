"""TextTable: texts, labels and slices as they stand in a file, each row with its line number.

Knows: rows. Does not know: files and formats, or what the labels mean to a model (see `labels.py`).
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TypeVar

from fastif.errors import DataError
from fastif.integrations.tables.columns import Columns

Value = TypeVar("Value")
Label = str | int | float | list[str] | list[int] | list[float]


@dataclass(frozen=True)
class TextTable:
    """Rows of labelled text.

    Args:
        source: the path or name, as it was given.
        texts: one for each row, none of them empty.
        pairs: the second texts, or None where each row has one text.
        labels: as they stand in the file: names, numbers (from csv and tsv as strings), or lists of these; None where
            there is no column of labels. A single one is None only where labels were not required.
        slices: the name of the slice that each row belongs to, or None where no column was named.
        columns: which column is what.
        lines: of each row, the number of the line it starts on, as an editor shows it; of parquet and the hub, the
            number of the row from 1.
        sha256: of the file's bytes, or of what was read of a data set of the hub. A part of a table keeps it.
        label_names: the names that the file itself gives to the labels 0, 1, 2, ..., where it does.
        dropped: how many rows without a label were left out.
        name: how messages call this table.
        unit: "line" or "row": what `lines` counts.
    """

    source: str
    texts: list[str]
    pairs: list[str] | None
    labels: list[Label | None] | None
    slices: list[str] | None
    columns: Columns
    lines: list[int]
    sha256: str
    label_names: list[str] | None = None
    dropped: int = 0
    name: str = "train"
    unit: str = "line"

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def where(self) -> str:
        """How messages call this table and where it came from."""
        return f"{self.name} ({self.source})"

    def conflicts(self) -> list[list[int]]:
        """Return the groups of rows that have the same text (and pair) and not all the same label."""
        groups: dict[tuple[str, str | None], list[int]] = {}
        for index, key in enumerate(self._inputs()):
            groups.setdefault(key, []).append(index)
        return [
            rows for rows in groups.values() if len(rows) > 1 and len({self._label_key(index) for index in rows}) > 1
        ]

    def duplicates(self) -> int:
        """Return how many rows repeat the text (and pair) and the label of a row before them."""
        different = {(key, self._label_key(index)) for index, key in enumerate(self._inputs())}
        return len(self) - len(different)

    def take(self, ids: Iterable[int]) -> TextTable:
        """Return the rows with these numbers, counted from 0, in their order."""
        chosen = [operator.index(index) for index in ids]
        for index in chosen:
            if not 0 <= index < len(self):
                raise DataError(f"{self.where} has {len(self)} rows, so there is no number {index}.")

        return replace(
            self,
            texts=_at(self.texts, chosen),
            pairs=None if self.pairs is None else _at(self.pairs, chosen),
            labels=None if self.labels is None else _at(self.labels, chosen),
            slices=None if self.slices is None else _at(self.slices, chosen),
            lines=_at(self.lines, chosen),
        )

    def rows(self) -> Iterator[dict[str, object]]:
        """Yield each row as a dictionary: its line, its text and whatever else the table has."""
        for index, line in enumerate(self.lines):
            row: dict[str, object] = {self.unit: line, "text": self.texts[index]}
            for name, column in (("text_pair", self.pairs), ("label", self.labels), ("slice", self.slices)):
                if column is not None:
                    row[name] = column[index]
            yield row

    def head(self, count: int) -> TextTable:
        """Return the first rows, all of them if there are fewer."""
        if count < 1:
            raise DataError(f"head takes at least one row of {self.where}, not {count}.")
        return self.take(range(min(count, len(self))))

    def _inputs(self) -> Iterable[tuple[str, str | None]]:
        return zip(self.texts, repeat(None, len(self)) if self.pairs is None else self.pairs, strict=True)

    def _label_key(self, index: int) -> str:
        return "" if self.labels is None else repr(self.labels[index])  # lists have no hash


def _at(values: Sequence[Value], ids: list[int]) -> list[Value]:
    return [values[index] for index in ids]
