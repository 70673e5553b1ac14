"""`fastif apply`: the training data of a run with the marks of the explorer applied, to train on again."""

import csv
import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fastif.cli import options
from fastif.cli.console import OUT, note, print_json
from fastif.cli.rows import check_place, write_rows
from fastif.errors import DataError
from fastif.web.names import ClassNames, name_of
from fastif.web.source import read_run

EPILOG = "Example: fastif apply runs/why marks.jsonl -o train-marked.csv"
FORMATS = (".csv", ".jsonl", ".parquet")
ACTIONS = ("keep", "remove", "relabel")
Row = dict[str, Any]


def apply(
    run: Annotated[Path, typer.Argument(help="Directory of the run that the marks were made on.")],
    marks: Annotated[Path, typer.Argument(help="Marks as the explorer downloads them, jsonl or csv.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Training data to write: csv, jsonl or parquet.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    as_json: options.Json = False,
) -> None:
    """Write the training data of a run with marks applied: without those to remove, with new labels for others."""
    check_place(out, force=force, formats=FORMATS)
    content = read_run(run)
    classes = ClassNames.learn(content.explanation["queries"], content.train)
    rows, counts = applied(content.train, read_marks(marks), classes)
    write_rows(out, rows)
    pair = " --text-pair text_pair" if "text_pair" in rows[0] else ""
    model = shlex.quote(str(content.request["arguments"]["model"]))
    command = f"fastif train BASE --train {shlex.quote(str(out))} --text text{pair} --label label -o {model}-marked"
    told = {"file": str(out), "rows": len(rows), **{name: counts[name] for name in ACTIONS}, "command": command}
    if as_json:
        print_json(told)
        return
    OUT.print(f"{counts['remove']:,} removed, {counts['relabel']:,} relabelled, {counts['keep']:,} kept on purpose.")
    note(f"Written to {out}: {len(rows):,} rows. To train on it, with the base that the model came from:\n  {command}")


def read_marks(file: Path) -> list[Row]:
    """Read the marks that the explorer downloads."""
    try:
        with open(file, encoding="utf-8", newline="") as stream:
            if file.suffix.lower() == ".csv":
                return [dict(row) for row in csv.DictReader(stream)]
            return [json.loads(line) for line in stream if line.strip()]
    except (OSError, ValueError, csv.Error) as error:
        raise DataError(f"{file} could not be read as marks of the explorer (jsonl or csv): {error}") from error


def applied(
    train: Sequence[Mapping[str, Any]], marks: Sequence[Row], classes: ClassNames
) -> tuple[list[Row], Counter[str]]:
    """Return the rows that are left, with their new labels, and how many marks of each kind there were."""
    raw = {name: label for label, name in classes.names.items()}
    verdicts: dict[int, Row] = {}
    for mark in marks:
        index = _index(mark, len(train))
        if mark.get("action") not in ACTIONS:
            raise DataError(f"the mark of example {index} is {mark.get('action')!r}; marks are {', '.join(ACTIONS)}.")
        seen, noted = classes.of(train[index].get("label")), name_of(mark.get("label"))
        if noted and seen != noted:
            raise DataError(
                f"example {index} has the label {seen} in this run and {noted} in the marks, so that they were made on "
                "other data. Open the explorer of this run and mark anew."
            )
        verdicts[index] = mark
    rows = []
    for index, row in enumerate(train):
        mark = verdicts.get(index, {})
        if mark.get("action") == "remove":
            continue
        kept = {name: value for name, value in row.items() if name not in ("line", "row")}
        if mark.get("action") == "relabel":
            new = str(mark["new_label"])
            kept["label"] = raw.get(new, new)
        rows.append(kept)
    if not rows:
        raise DataError("every training example is marked to be removed, and nothing is left to train on.")
    return rows, Counter(str(mark["action"]) for mark in verdicts.values())


def _index(mark: Row, examples: int) -> int:
    try:
        index = int(mark["index"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"a mark has no index of a training example: {mark}.") from error
    if not 0 <= index < examples:
        raise DataError(f"there is a mark of example {index}, and the run has {examples:,} of them.")
    return index
