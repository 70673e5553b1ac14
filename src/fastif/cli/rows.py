"""Files of rows that a person or a program goes on with: csv, jsonl and parquet, by the ending of their name.

jsonl and parquet hold every text exactly. csv is read by spreadsheets, for which cells are guarded (web/rows.py); but
not in files to train on, which are exact in every form: a label -1 must stay one.
"""

import csv
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastif.cli.places import check_replaceable
from fastif.errors import ConfigurationError, StoredFileError
from fastif.files import replacing
from fastif.web.rows import cell

FORMATS = (".csv", ".jsonl", ".parquet")
Row = dict[str, Any]


def check_place(
    out: Path,
    *,
    force: bool,
    formats: Sequence[str] = FORMATS,
    option: str = "-o",
    inputs: Sequence[str | Path | None] = (),
) -> None:
    """Raise before any work if the file could not be written in the end, or is one of the inputs of that work."""
    if out.suffix.lower() not in formats:
        words = f"{', '.join(formats[:-1])} or {formats[-1]}"
        raise ConfigurationError(f"{option} {out} must end in {words}, which says how it is written.")
    if out.suffix.lower() == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise ConfigurationError(
            f"{option} {out} is parquet, which needs pyarrow, and that is not installed: pip install 'fastif[hf]'. "
            "Without it, .csv and .jsonl can be written."
        )
    if out.is_dir():
        raise StoredFileError(f"{out} is a directory; give the name of a file.")
    check_replaceable(out, force=force, inputs=inputs)


def write_rows(
    out: Path, rows: Sequence[Row], *, columns: Sequence[str] | None = None, to_train_on: bool = False
) -> None:
    """Write rows, whole or not at all; columns are those of the first row unless given, as for no rows they must be."""
    write = _exact_csv if to_train_on and out.suffix.lower() == ".csv" else WRITERS[out.suffix.lower()]
    names = list(rows[0] if columns is None else columns)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with replacing(out) as temporary:
            write(temporary, rows, names)
    except OSError as error:
        raise StoredFileError(f"{out} could not be written: {error}") from error


def _jsonl(path: Path, rows: Sequence[Row], names: Sequence[str]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as stream:
        stream.writelines(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)


def _csv(path: Path, rows: Sequence[Row], names: Sequence[str]) -> None:
    _exact_csv(path, [{name: cell(value) for name, value in row.items()} for row in rows], names)


def _exact_csv(path: Path, rows: Sequence[Row], names: Sequence[str]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as stream:
        table = csv.DictWriter(stream, names, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def _parquet(path: Path, rows: Sequence[Row], names: Sequence[str]) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({name: [row[name] for row in rows] for name in names}), path)


WRITERS = {".csv": _csv, ".jsonl": _jsonl, ".parquet": _parquet}
