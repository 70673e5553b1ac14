"""Files of rows, csv or jsonl, as the page and `fastif audit` write them; and the cells of csv, there and back.

Spreadsheets run a cell that begins with = + - @, a tab or a carriage return as a formula: a single quote in front keeps
them from it, and is taken off where such a file is read. static/marks.js writes cells by the same rule.
"""

import csv
import json
from pathlib import Path
from typing import Any

from fastif.errors import DataError

FORMULA = ("=", "+", "-", "@", "\t", "\r")


def cell(value: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula.

    >>> cell("=1+1"), cell("fine"), cell(-2.5), cell("'=1")
    ("'=1+1", 'fine', -2.5, "''=1")
    """
    return f"'{value}" if _is_formula(value) else value


def plain(value: Any) -> Any:
    """Return what a cell was made of.

    >>> [plain(cell(text)) for text in ("=1+1", "'=1", "'quoted'", "")]
    ['=1+1', "'=1", "'quoted'", '']
    """
    return value[1:] if _is_formula(value) and value.startswith("'") else value


def _is_formula(value: Any) -> bool:
    return isinstance(value, str) and value.lstrip("'").startswith(FORMULA)


def read_rows(file: Path, what: str) -> list[dict[str, Any]]:
    """Read rows from csv, or from jsonl whatever the name ends in; `what` they should be is said where that fails."""
    try:
        with open(file, encoding="utf-8-sig", newline="") as stream:  # spreadsheets put a mark of the encoding in front
            if file.suffix.lower() == ".csv":
                return [{name: plain(value) for name, value in row.items()} for row in csv.DictReader(stream)]
            rows = [json.loads(line) for line in stream if line.strip()]
    except (OSError, ValueError, csv.Error, RecursionError) as error:  # the last where lists are nested too deeply
        raise DataError(f"{file} could not be read as {what}: {error}") from error
    odd = next((row for row in rows if not isinstance(row, dict)), None)
    if odd is not None:
        raise DataError(f"{file} could not be read as {what}: a line is {odd!r:.100}, and no object with names.")
    return rows
