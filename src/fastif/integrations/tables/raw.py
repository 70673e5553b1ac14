"""RawTable: what a reader of one format hands over, before anyone has said which column is what; and its bad rows.

Knows: names, values by column, and where in the file each row stands. Does not know: formats, texts or labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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
        self._rows: dict[int, tuple[str, str, type[DataError]]] = {}

    def add(self, line: int, what: str, *, hint: str = "", kind: type[DataError] = DataError) -> None:
        """Note one bad row, by the first thing wrong with it; `hint` says what helps, beside correcting the row."""
        self._rows.setdefault(line, (what, hint, kind))

    def check(self) -> None:
        """Raise if there was a bad row."""
        if not self._rows:
            return
        count = len(self._rows)
        first = sorted(self._rows)[:SHOWN]
        told = "; ".join(f"{self._unit} {line}: {self._rows[line][0]}" for line in first)
        more = f"; and {count - SHOWN} more" if count > SHOWN else ""
        # each hint once, in the order of the rows
        hints = "".join(dict.fromkeys(f" {self._rows[line][1]}" for line in first if self._rows[line][1]))
        kinds = {kind for _, _, kind in self._rows.values()}
        rows, them = ("row", "it") if count == 1 else ("rows", "them")
        raise (kinds.pop() if len(kinds) == 1 else DataError)(
            f"{self._where}: {count} {rows} cannot be used. {told}{more}. Correct or remove {them}.{hints}"
        )


def shown(value: object, width: int = 40) -> str:
    """Return a value as a message quotes it: on one line, and cut.

    >>> shown("a" * 50, width=10)
    "'aaaaaaaa…"
    """
    line = repr(value)
    return line if len(line) <= width else line[: width - 1] + "…"


def plain(values: Any) -> Any:
    """Return arrays and numbers of NumPy and torch as lists and numbers of Python; the rest as it is.

    >>> import numpy as np
    >>> plain(np.array([0, 1])), plain([np.int64(2), "a", [np.float32(0.5)]])
    ([0, 1], [2, 'a', [0.5]])
    """
    if isinstance(values, list | tuple):
        return [plain(each) for each in values]
    to_list = None if type(values) is str else getattr(values, "tolist", None)
    return to_list() if callable(to_list) else values
