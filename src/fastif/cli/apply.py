"""`fastif apply`: the training data of a run with the marks of the explorer applied, to train on again."""

from pathlib import Path
from typing import Annotated

import typer

from fastif.cli import options
from fastif.cli.console import OUT, note, print_json
from fastif.cli.rows import check_place, write_rows
from fastif.store import RunStore
from fastif.web.again import Again
from fastif.web.marks import marked_rows
from fastif.web.verdicts import ACTIONS

EPILOG = "Example: fastif apply runs/why marks.jsonl -o train-marked.jsonl"


def apply(
    run: Annotated[Path, typer.Argument(help="Directory of the run that the marks were made on.")],
    marks: Annotated[Path, typer.Argument(help="Marks as the explorer downloads them: jsonl, csv or parquet.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Training data to write: csv, jsonl or parquet.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    as_json: options.Json = False,
) -> None:
    """Write the training data of a run with marks applied: without those to remove, with new labels for others.

    The columns are those that a run keeps, by the names that it gives them: text, text_pair, label and slice. The
    command that is told at the end names them.
    """
    check_place(out, force=force, inputs=[marks])
    rows, counts = marked_rows(run, marks)
    write_rows(out, rows, to_train_on=True)
    again = Again.of(RunStore.read(run).arguments, pair="text_pair" in rows[0])
    command = again.command(str(out))
    told = {"file": str(out), "rows": len(rows), **{name: counts[name] for name in ACTIONS}, "command": command}
    if as_json:
        print_json(told)
        return
    OUT.print(f"{counts['remove']:,} removed, {counts['relabel']:,} relabelled, {counts['keep']:,} kept on purpose.")
    note(f"Written to {out}: {len(rows):,} rows. To train on it{again.hint}:\n  {command}")
