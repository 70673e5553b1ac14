"""The check of every row: a text that is there, a label that is there and of the same kind as the others.

What counts as no label: nothing, an empty string, NaN, and the marks of data sets for "no gold label". Those are "-"
(SNLI, MultiNLI), unless the only other label is "+"; and -1 (the test splits of GLUE on the hub), where all the others
are whole numbers from 0 on and 0 is among them, so that -1 stays a label beside 1 alone, -2 or 0.5.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from fastif.errors import EmptyDataError, LabelError
from fastif.integrations.tables.columns import Columns
from fastif.integrations.tables.looks import is_number
from fastif.integrations.tables.names import as_number
from fastif.integrations.tables.raw import BadRows, RawTable, shown
from fastif.integrations.tables.table import Label

DROP = "--drop-unlabelled (in Python: drop_unlabelled=True)"
NO_SLICE = "(none)"
KINDS = {str: "a string", bool: "true or false", int: "a number", float: "a number", list: "a list"}


@dataclass(frozen=True)
class Checked:
    """The columns of a table, of the rows that are kept."""

    texts: list[str]
    pairs: list[str] | None
    labels: list[Label | None] | None
    slices: list[str] | None
    lines: list[int]
    dropped: int


def check_rows(raw: RawTable, columns: Columns, where: str, *, require_label: bool, drop_unlabelled: bool) -> Checked:
    """Return the columns that were chosen, or raise with the line numbers of the rows that cannot be used."""
    bad = BadRows(where, raw.unit)
    labels = None if columns.label is None else _labels(raw, columns.label, where, drop_unlabelled or not require_label)
    kept: Sequence[int] = range(len(raw.lines))
    if labels is not None and drop_unlabelled:
        kept = [index for index in kept if labels[index] is not None]
        if not kept:
            raise EmptyDataError(f"{where}: none of the {len(labels)} rows has a label, so that all would be dropped.")
    lines = [raw.lines[index] for index in kept]
    texts = _texts(raw, columns.text, kept, bad)
    pairs = None if columns.text_pair is None else _texts(raw, columns.text_pair, kept, bad)
    if labels is not None:
        labels = [labels[index] for index in kept]
        _check_kinds(labels, lines, bad, require_label)
    bad.check()
    slices = None
    if columns.slice is not None:
        values = raw.column(columns.slice)
        slices = [NO_SLICE if values[index] in (None, "") else str(values[index]) for index in kept]
    # every label is of one of the kinds by now
    checked = cast("list[Label | None] | None", labels)
    return Checked(texts, pairs, checked, slices, lines, len(raw.lines) - len(lines))


def _texts(raw: RawTable, column: str, kept: Sequence[int], bad: BadRows) -> list[str]:
    values = raw.column(column)
    texts = []
    for index in kept:
        value = values[index]
        trouble = _trouble(value, column)
        if trouble:
            bad.add(raw.lines[index], trouble)
        texts.append(cast(str, value))
    return texts


def _trouble(value: object, column: str) -> str | None:
    if type(value) is not str:
        return f"no {column}" if value is None else f"{column} is {_kind(value)}, {shown(value)}, and not a string"
    if not value or value.isspace():
        return f"{column} is empty"
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return f"{column} has half a character (a lone surrogate such as \\ud83d), which no tokenizer reads"
    return None


def _labels(raw: RawTable, column: str, where: str, allowed: bool) -> list[object]:
    """Return the labels with None for those that are none, or raise if that is not allowed for marks."""
    values = raw.column(column)
    counts = Counter(value for value in values if isinstance(value, str | int | float))  # a list has no hash
    marks = _marks(counts)
    if marks and not allowed:
        count = sum(counts[mark] for mark in marks)
        first = next(
            index for index, value in enumerate(values) if isinstance(value, str | int | float) and value in marks
        )
        mark = shown(values[first])
        other = "" if count == len(values) else f" If {mark} is a class of its own, give it another name in the file."
        raise LabelError(
            f"{where}: {count} of {len(values)} rows have the label {mark}, which stands for no label, the first in "
            f"{raw.unit} {raw.lines[first]}. Drop them with {DROP}.{other}"
        )
    numeric = all(_is_nan(value) or (isinstance(value, str) and (not value or is_number(value))) for value in counts)
    missing = {value for value in counts if _is_missing(value) or (numeric and _is_nan(value))} | marks
    # NaN differs from itself, so that it need not be found in a set
    return [
        None
        if value is None or (isinstance(value, str | int | float) and (value in missing or value != value))
        else value
        for value in values
    ]


def _marks(counts: Counter[str | int | float]) -> set[str | int | float]:
    present = [value for value in counts if not _is_missing(value)]
    marks: set[str | int | float] = set()
    if "-" in counts and {value for value in present if value != "-"} != {"+"}:
        marks.add("-")
    numbers = {value: _as_number(value) for value in present if value not in marks}
    others = {number for number in numbers.values() if number != -1}
    whole = all(number is not None and number >= 0 and number == int(number) for number in others)
    if -1 in numbers.values() and whole and (not others or 0 in others):
        marks.update(value for value, number in numbers.items() if number == -1)
    return marks


def _as_number(value: str | int | float) -> float | None:
    return None if isinstance(value, bool) else as_number(value)


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip()) or value != value


def _is_nan(value: object) -> bool:
    return isinstance(value, str) and value.strip().casefold() == "nan"


def _check_kinds(labels: list[object], lines: list[int], bad: BadRows, require_label: bool) -> None:
    counts = Counter(_kind(label) for label in labels if label is not None)
    usual = counts.most_common(1)[0][0] if counts else ""
    for label, line in zip(labels, lines, strict=True):
        if label is None:
            if require_label:
                bad.add(line, "no label", hint=f"Or drop what has no label with {DROP}.", kind=LabelError)
            continue
        kind = _kind(label)
        if kind not in KINDS.values():
            bad.add(line, f"the label is {kind}, {shown(label)}", kind=LabelError)
        elif kind != usual:
            bad.add(line, f"the label {shown(label)} is {kind} where most are {usual}", kind=LabelError)
        elif isinstance(label, float) and math.isinf(label):
            bad.add(line, "the label is infinite", kind=LabelError)
        elif isinstance(label, list) and not _is_plain(label):
            bad.add(line, f"the label {shown(label)} is no list of strings or of numbers", kind=LabelError)


def _kind(value: object) -> str:
    return KINDS.get(type(value), f"of type {type(value).__name__}")


def _is_plain(members: list[object]) -> bool:
    kinds = {_kind(member) for member in members}
    finite = all(as_number(member) is not None for member in members if isinstance(member, int | float))
    return kinds <= {"a string"} or (kinds <= {"a number"} and finite)
