"""RawTable: what a reader of one format hands over, before anyone has said which column is what; and its bad rows.

Knows: names, values by column, and where in the file each row stands. Does not know: formats, texts or labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fastif.errors import DataError

SHOWN = 3  # bad rows that a message names; of the rest it gives the number


@dataclass(frozen=True)
class RawTable:
    """Rows by column.

    Args:
        names: of the columns, in the order of the file.
        column: returns the values of one column, None where a row has none.
        lines: of each row, the number of the line it starts on, from 1; or of the row, where there are no lines.
        unit: "line" or "row": what those numbers count.
        class_names: of a column of numbers, the names that the file itself gives to 0, 1, 2, ...
        has_header: whether the names are the first line of a file, which might be data by mistake.
    """

    names: Sequence[str]
    column: Callable[[str], list[object]]
    lines: Sequence[int]
    unit: str = "line"
    class_names: Mapping[str, list[str]] = field(default_factory=dict)
    has_header: bool = False


class BadRows:
    """Collects the rows that cannot be used, and tells of the first few and of how many there are.

    >>> bad = BadRows("train (a.csv)", "line")
    >>> bad.add(7, "no text")
    >>> bad.check()
    Traceback (most recent call last):
    fastif.errors.DataError: train (a.csv): 1 row cannot be used. line 7: no text. Correct or remove it.
    """

    def __init__(self, where: str, unit: str) -> None:
        self._where, self._unit = where, unit
        self._shown: list[str] = []
        self._count = 0
        self._kinds: set[type[DataError]] = set()
        self._hints: dict[str, None] = {}  # in the order in which they came, each once

    def add(self, line: int, what: str, *, hint: str = "", kind: type[DataError] = DataError) -> None:
        """Note one bad row; `hint` says what would help, beside correcting the row."""
        self._count += 1
        self._kinds.add(kind)
        if len(self._shown) < SHOWN:
            self._shown.append(f"{self._unit} {line}: {what}")
            if hint:
                self._hints[hint] = None

    def check(self) -> None:
        """Raise if there was a bad row."""
        if not self._count:
            return
        kind = self._kinds.pop() if len(self._kinds) == 1 else DataError
        rows, them = ("row", "it") if self._count == 1 else ("rows", "them")
        more = f"; and {self._count - len(self._shown)} more" if self._count > len(self._shown) else ""
        hints = "".join(f" {hint}" for hint in self._hints)
        raise kind(
            f"{self._where}: {self._count} {rows} cannot be used. {'; '.join(self._shown)}{more}. "
            f"Correct or remove {them}.{hints}"
        )


def shown(value: object, width: int = 40) -> str:
    """Return a value as a message quotes it: on one line, and cut.

    >>> shown("a" * 50, width=10)
    "'aaaaaaaa…"
    """
    line = repr(value)
    return line if len(line) <= width else line[: width - 1] + "…"
