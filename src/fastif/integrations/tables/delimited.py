"""csv and tsv, with a header.

csv is what Python's csv module writes: fields with commas, quotes or line ends stand in quotes, quotes inside them are
doubled. A quote in the middle of a bare field is a plain character; one that opens a field must close it.

tsv is one row a line, one tab between fields. Quotes are plain characters, as in the files of GLUE, where a sentence
may open one and never close it; only a field that is quoted as a whole, with every quote inside doubled, is unquoted.
So a tsv field holds no tab and no line end: texts that do go into csv or jsonl.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator

from fastif.errors import DataError, EmptyDataError
from fastif.integrations.tables.raw import BadRows, RawTable, shown

FIELD_LIMIT = 2**31 - 1  # the most that a C long holds everywhere; Python's own limit is 128 KiB
QUOTED = re.compile(r'"(?:[^"]|"")*"')
Row = list[str]


def read_csv(text: str, where: str) -> RawTable:
    """Read comma-separated values."""
    before = csv.field_size_limit(FIELD_LIMIT)  # of the whole process, hence put back
    try:
        return _table(_csv_rows(text, where), where, ",")
    finally:
        csv.field_size_limit(before)


def read_tsv(text: str, where: str) -> RawTable:
    """Read tab-separated values."""
    return _table(_tsv_rows(text), where, "\t")


def _csv_rows(text: str, where: str) -> Iterator[tuple[int, Row]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    first = 1
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            what = (
                "a quote that opens a field there is never closed"
                if "unexpected end" in str(error)
                else f"a quoted field goes on behind its closing quote ({error})"
            )
            raise DataError(
                f'{where}, line {first}: {what}. Inside quotes, a quote is written twice: "say ""so""".'
            ) from error
        if row:
            yield first, row
        first = reader.line_num + 1  # line_num is the last line of a row; quoted line ends make it more than one


def _tsv_rows(text: str) -> Iterator[tuple[int, Row]]:
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.removesuffix("\r")
        if not line:
            continue
        row = line.split("\t")
        if '"' in line:
            row = [
                field[1:-1].replace('""', '"') if field[:1] == '"' and QUOTED.fullmatch(field) else field
                for field in row
            ]
        yield number, row


def _table(rows: Iterator[tuple[int, Row]], where: str, separator: str) -> RawTable:
    line, header = next(rows, (0, []))
    if not header:
        raise EmptyDataError(f"{where} is empty: there is no header and no row. Was the file written to the end?")
    names = _checked_header(header, where, line, separator)
    kept: list[Row] = []
    lines: list[int] = []
    bad = BadRows(where, "line")
    for line, row in rows:
        if len(row) == len(names):
            kept.append(row)
            lines.append(line)
        else:
            bad.add(line, f"{_fields(len(row))} where the header has {len(names)}", hint=_hint(row, separator))
    if not any(name.strip() for name in names) and not any(each.strip() for row in kept for each in row):
        raise EmptyDataError(f"{where} is empty: there is nothing but blank lines. Was the file written to the end?")
    bad.check()
    if not kept:
        raise EmptyDataError(
            f"{where} has a header ({', '.join(names)}) and no row below it. If that line is data, put a header above."
        )

    def column(name: str) -> list[object]:
        index = names.index(name)
        return [row[index] for row in kept]

    return RawTable(names, column, lines, has_header=True)


def _checked_header(header: Row, where: str, line: int, separator: str) -> list[str]:
    names = [name.strip() for name in header]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        called = f"names {twice!r} twice" if twice else "has several columns without a name"
        raise DataError(f"{where}, line {line}: the header {called}; each column needs a name of its own.")
    if len(names) == 1:
        for other, called, advice in (
            ("\t", "tabs", "name the file .tsv"),
            (";", "semicolons", "save it with commas, or as .tsv with tabs"),
            (",", "commas", "name the file .csv"),
        ):
            if other != separator and other in names[0]:
                raise DataError(
                    f"{where}, line {line}: the header {shown(names[0])} is one field, separated by {called}: {advice}."
                )
    return names


def _fields(count: int) -> str:
    return "1 field" if count == 1 else f"{count} fields"


def _hint(row: Row, separator: str) -> str:
    if separator == ",":
        return "A text that has commas must stand in quotes."
    if any(field.startswith('"') for field in row):
        return "In tsv, quotes keep no tab or line end together: save texts that have these as csv or jsonl."
    return ""
