"""The scores of a finished run as edges, with the slice of each query: what `fastif slices` and `graph` begin with.

Needs neither the model nor the training data, only what the run keeps. What a person should know of the slices (there
are none, one only, one without a query) is said here, in words.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from fastif.apps.edges import Choice, Edges, choose_edges
from fastif.apps.slices import ALL
from fastif.cli.loading import load_table, only_trained_on
from fastif.cli.opened import OpenedRun
from fastif.errors import DataError, StoredFileError

TOP = 100
KEPT_COLUMNS = ("slice", "label")  # of the training data, that a run keeps under these names


class Chosen(StrEnum):
    """Which of the scored training points become edges of a query."""

    EACH = "each"
    STRONGEST = "strongest"
    ALL = "all"


Top = Annotated[int, typer.Option("--top", min=1, help="Training points of each query to count, as --choose says.")]
Choose = Annotated[
    Chosen,
    typer.Option(
        "--choose",
        help="each: so many helpful and so many harmful ones. strongest: so many in all, whatever their sign, so that "
        "counts say something. all: every scored one.",
    ),
]


@dataclass(frozen=True, eq=False)
class SlicedEdges:
    """Edges, the slice of each query, the slices that have no query, and what a person should know of these."""

    edges: Edges
    slices: list[str]
    empty: list[str]
    notes: list[str]


def sliced_edges(run: OpenedRun, top: int, chosen: Chosen) -> SlicedEdges:
    """Return the edges of a run with the slices of its queries."""
    by: Choice = "strongest" if chosen is Chosen.STRONGEST else "each"
    edges = choose_edges(run.scores, None if chosen is Chosen.ALL else top, by=by)
    names = [query.get("slice") for query in run.explanation["queries"]]
    if None in names:  # of one table all queries have a slice, or none has
        note = (
            f"The queries of this run have no slices, so that all {len(names)} of them are taken as one, called "
            f"{ALL!r}. Name a column of the queries with fastif explain --query-slice to tell parts of them apart."
        )
        return SlicedEdges(edges, [ALL] * len(names), [], [note])
    known: dict[str, dict[str, int]] = run.explanation.get("query_slices") or {}
    empty = [name for name, count in known.items() if not count["explained"]]
    return SlicedEdges(edges, names, empty, _notes(names, empty, known))


def _notes(names: list[str], empty: list[str], known: dict[str, dict[str, int]]) -> list[str]:
    notes = [
        f"Slice {name} is empty: none of its {known[name]['queries']:,} queries was explained, so that nothing is "
        "known of it. See --wrong, --limit and --per-slice of fastif explain."
        for name in empty
    ]
    different = list(dict.fromkeys(names))
    if len(different) == 1 and not empty:
        notes.append(
            f"All {len(names):,} queries are of one slice, {different[0]}: there is no other to compare it with."
        )
    alone = [name for name in different if names.count(name) == 1]
    if alone and len(different) > 1:
        which = f"Slice {alone[0]} has" if len(alone) == 1 else f"Each of the slices {', '.join(alone)} has"
        notes.append(f"{which} one query: what is told of such a slice is told of that query alone.")
    return notes


def train_slices(run: OpenedRun, column: str) -> list[str]:
    """Return the value of a column for each training point.

    `slice` and `label` are what the run keeps under these names; any other column is read from the training data.
    """
    rows = _kept_rows(run)
    if column in KEPT_COLUMNS and column in rows[0]:
        return [str(row[column]) for row in rows]
    if column == "slice":
        raise DataError(
            f"{run.path} has no slices of its training data. Name another column of it, or label, with --split-train, "
            "or make the run again with fastif explain --slice."
        )
    given = run.arguments
    columns = {name: given[name] for name in ("text", "text_pair", "label", "split", "drop_unlabelled")}
    try:
        table = only_trained_on(given["model"], load_table(given["train"], "train", slice=column, **columns))
    except DataError as error:  # the table knows of one option that names slices
        raise DataError(str(error).replace("--slice", "--split-train")) from error
    if table.texts != [row["text"] for row in rows] or table.slices is None:
        raise StoredFileError(
            f"the training data is not what it was when {run.path} was made, so that its column {column} cannot be "
            "told to the right examples. Run fastif explain again, into a new directory."
        )
    return table.slices


def _kept_rows(run: OpenedRun) -> list[dict[str, Any]]:
    with open(run.store.file("train.jsonl"), encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]
