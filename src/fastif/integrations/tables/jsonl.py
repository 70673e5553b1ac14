"""JSON: one object a line (jsonl, ndjson), or a list of objects (json).

Lines end at a line feed and nowhere else: JSON may hold other separators (U+2028, U+0085) inside a string. The columns
are the keys that occur, in the order in which they first do; a row without one of them has no value there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from fastif.errors import DataError
from fastif.integrations.tables.raw import BadRows, RawTable, shown

SPACE = re.compile(r"[ \t\r\n]*")
Row = dict[str, object]


def read_jsonl(text: str, where: str) -> RawTable:
    """Read one object from each line that is not blank."""
    rows: list[Row] = []
    lines: list[int] = []
    bad = BadRows(where, "line")
    for number, line in enumerate(text.split("\n"), start=1):
        if not line or line.isspace():
            continue
        try:
            row = json.loads(line, object_pairs_hook=_object)
        except (ValueError, RecursionError) as error:
            bad.add(number, f"broken JSON ({_reason(error)})", hint=_hint_of(line, number))
            continue
        if isinstance(row, dict):
            rows.append(row)
            lines.append(number)
        else:
            hint = "A file that is one list must end in .json." if isinstance(row, list) and number == 1 else ""
            bad.add(number, f"{_called(row)} instead of an object {{...}}", hint=hint)
    bad.check()
    return _table(rows, lines)


def read_json(text: str, where: str) -> RawTable:
    """Read a list of objects; a file that does not begin with a list is jsonl, as many that end in .json are."""
    start = _skip(text, 0)
    if text[start : start + 1] != "[":
        return read_jsonl(text, where)
    rows: list[Row] = []
    lines: list[int] = []
    bad = BadRows(where, "line")
    for line, row in _elements(text, _skip(text, start + 1), where):
        if isinstance(row, dict):
            rows.append(row)
            lines.append(line)
        else:
            bad.add(line, f"{_called(row)} instead of an object {{...}}")
    bad.check()
    return _table(rows, lines)


def _elements(text: str, at: int, where: str) -> Iterator[tuple[int, object]]:
    """Yield the members of the list that is open at a position, each with the line that it begins on."""
    decoder = json.JSONDecoder(object_pairs_hook=_object)
    line, counted, follows = 1, 0, text[at : at + 1]
    while follows != "]":
        line, counted = line + text.count("\n", counted, at), at
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            found = error.lineno if isinstance(error, json.JSONDecodeError) else line
            raise DataError(f"{where}, line {found}: broken JSON ({_reason(error)}). Correct it.") from error
        yield line, value
        at = _skip(text, at)
        follows = text[at : at + 1]
        if follows not in ("]", ","):
            what = (
                "a comma is missing between two members" if follows else "the list does not end: was it copied whole?"
            )
            raise DataError(f"{where}, line {_line(text, at)}: broken JSON ({what}). Correct it.")
        if follows == ",":
            at = _skip(text, at + 1)
    rest = _skip(text, at + 1)
    if rest < len(text):
        raise DataError(
            f"{where}, line {_line(text, rest)}: broken JSON (text after the end of the list, "
            f"{shown(text[rest : rest + 40])}). Correct it."
        )


def _object(pairs: list[tuple[str, object]]) -> Row:
    """Return an object; one with a key twice says two things, of which Python would take the last."""
    row = dict(pairs)
    if len(row) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {shown(next(key for key in keys if keys.count(key) > 1))} stands there twice")
    return row


def _table(rows: list[Row], lines: list[int]) -> RawTable:
    names: dict[str, None] = {}
    keys: object = None
    for row in rows:
        if row.keys() != keys:  # most rows are like the one before
            keys = row.keys()
            names.update(dict.fromkeys(row))
    return RawTable(list(names), lambda name: [row.get(name) for row in rows], lines)


def _skip(text: str, at: int) -> int:
    match = SPACE.match(text, at)
    return at if match is None else match.end()


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg}, column {error.colno}"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _hint_of(line: str, number: int) -> str:
    if line.strip() in ("[", "{") and number == 1:
        return "In jsonl each line is a whole object; a list over several lines must be in a file that ends in .json."
    return ""


def _called(value: object) -> str:
    return "a list" if isinstance(value, list) else shown(value)
