"""Marks: a person's verdicts on training examples, as files that go from the page to `fastif apply`.

A file of marks is jsonl, csv or parquet, and the same rows in each: which example, what to do with it, the label that
it had, the one that it gets. Knows rows and files; the page writes jsonl and csv by itself (static/marks.js), and asks
its server for parquet.
"""

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fastif.errors import ConfigurationError, DataError
from fastif.web.names import ClassNames
from fastif.web.payload import NOTHING, Payload
from fastif.web.rows import read_rows
from fastif.web.source import read_run
from fastif.web.verdicts import Verdict, verdicts_of

RELABEL = "label:"  # how the page writes the verdict that an example belongs to another class
COLUMNS = ("index", "line", "action", "label", "new_label", "text")
NO_VERDICT = Verdict("keep")
Row = dict[str, Any]


def mark_rows(payload: Payload, verdicts: Mapping[int, str]) -> list[Row]:
    """Return the rows of marks, as the page writes them itself.

    Args:
        payload: of the page that the marks were made on.
        verdicts: by the index of the training example: keep, remove, or label: and the name of a class.
    """
    nodes = {index: node for node, index in enumerate(payload.arrays["train_id"].tolist())}
    known = {"keep", "remove", *(RELABEL + name for name in payload.head["classes"])}
    for index, verdict in verdicts.items():
        if index not in nodes:
            raise DataError(f"there is a mark of example {index}, which is not on this page.")
        if verdict not in known:
            raise DataError(f"the mark of example {index} is none of keep, remove and another of the page's labels.")
    return [_mark_row(payload, nodes[index], verdict) for index, verdict in verdicts.items()]


def _mark_row(payload: Payload, node: int, verdict: str) -> Row:
    label, new = int(payload.arrays["train_label"][node]), verdict.removeprefix(RELABEL)
    values = (
        int(payload.arrays["train_id"][node]),
        int(payload.arrays["train_line"][node]),
        verdict if new == verdict else "relabel",
        None if label == NOTHING else payload.head["labels"][label],
        None if new == verdict else new,
        payload.text(node),
    )
    return dict(zip(COLUMNS, values, strict=True))


def as_parquet(rows: Sequence[Row]) -> bytes:
    """Return rows of marks as the content of a parquet file; columns have their types also where all is empty."""
    pyarrow, parquet = _parquet("marks as parquet")
    kinds = {name: pyarrow.int64() if name in ("index", "line") else pyarrow.string() for name in COLUMNS}
    stream = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(list(rows), schema=pyarrow.schema(list(kinds.items()))), stream)
    return stream.getvalue()


def read_marks(file: Path) -> list[Row]:
    """Read the marks that the explorer downloads, in the form that the name of the file ends in."""
    what = "marks of the explorer (jsonl, csv or parquet)"
    if file.suffix.lower() != ".parquet":
        return read_rows(file, what)
    _, parquet = _parquet(str(file))
    try:
        with open(file, "rb") as stream:
            rows: list[Row] = parquet.ParquetFile(stream).read().to_pylist()
    except (OSError, ValueError) as error:  # what is damaged is one of these
        raise DataError(f"{file} could not be read as {what}: {error}") from error
    return rows


def _parquet(what: str) -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f'{what} needs pyarrow, which is not installed: pip install "fastif[web]". The page writes the same marks '
            "as jsonl and csv, which need nothing."
        ) from error
    return pyarrow, parquet


def marked_rows(run: Path, marks: Path) -> tuple[list[Row], Counter[str]]:
    """Return the training rows of a run with marks applied, and how many marks of each kind there were."""
    content = read_run(run)
    asked = content.explanation["queries"]
    return applied(content.train, read_marks(marks), ClassNames.learn(asked, content.train), asked)


def applied(
    train: Sequence[Mapping[str, Any]],
    marks: Sequence[Row],
    classes: ClassNames,
    queries: Sequence[Mapping[str, Any]] = (),
) -> tuple[list[Row], Counter[str]]:
    """Return the rows that are left, with their new labels, and how many marks of each kind there were.

    Args:
        train: the training rows of a run.
        marks: which of them to remove, and which to give another label.
        classes: what the labels of the rows are called.
        queries: of the run; a class that only these have may be a new label too.
    """
    raw = {name: label for label, name in classes.names.items()}
    verdicts = verdicts_of(marks, train, classes, classes.all((), queries))
    rows = []
    for index, row in enumerate(train):
        verdict = verdicts.get(index, NO_VERDICT)
        if verdict.action == "remove":
            continue
        kept = {name: value for name, value in row.items() if name not in ("line", "row")}
        if verdict.new_label is not None:
            kept["label"] = raw.get(verdict.new_label, verdict.new_label)
        rows.append(kept)
    if not rows:
        raise DataError("every training example is marked to be removed, and nothing is left to train on.")
    return rows, Counter(verdict.action for verdict in verdicts.values())
