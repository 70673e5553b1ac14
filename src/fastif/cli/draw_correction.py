"""Corrections and augmentations as a person reads them on a terminal: tables, and sentences."""

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fastif.cli.draw import WIDTH, clean

MOST_PARTS = 40
SHOWN = 5
MOST_ROWS = 10


def draw_correction(result: dict[str, Any], console: Console) -> None:
    """Draw the table, what was chosen, and what it means."""
    for measure, title in (("accuracy", "Accuracy"), ("loss", "Mean loss")):
        console.print(Text(f"{title}, at the start and after the last step", style="bold"))
        console.print(_table(result, measure))
    hidden = len(result["parts"]) - MOST_PARTS
    if hidden > 0:
        console.print(Text(f"... and {hidden} more parts in the file.", style="dim"))
    for kind, rows in result["chosen_examples"].items():
        if rows:
            console.print(Text(f"\nMost often {kind}", style="bold"))
            console.print(_chosen(rows[:SHOWN]))
    console.print(Text("\nIn words", style="bold"))
    _words(result, console, result["how"])


def draw_augmentation(result: dict[str, Any], console: Console) -> None:
    """Draw the chosen rows of a pool and, if steps were taken on it, how they went."""
    rows = result["chosen"]
    if "courses" in result:
        draw_correction(result, console)
        return
    console.print(
        Text(f"The most helpful rows of the pool, {min(len(rows), MOST_ROWS)} of {len(rows):,}", style="bold")
    )
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in result["columns"]:
        table.add_column(clean(name, 20), overflow="fold")
    for row in rows[:MOST_ROWS]:
        table.add_row(*(Text(_cell(row[name])) for name in result["columns"]))
    console.print(table)
    console.print(Text("\nIn words", style="bold"))
    _words(result, console, result["ranked_how"])


def _words(result: dict[str, Any], console: Console, how: str) -> None:
    for words in result["summary"]:
        console.print(Text(words))
    console.print(Text(f"Influence through {result['influence_through']}.", style="dim"))
    if how:
        console.print(Text(how, style="dim"))


def _cell(value: Any) -> str:
    return f"{value:+.4g}" if isinstance(value, float) else clean(str(value), WIDTH)


def _table(result: dict[str, Any], measure: str) -> Table:
    kinds = list(dict.fromkeys(one["kind"] for one in result["courses"]))
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("part")
    for name in ("examples", "start", *kinds):
        table.add_column(name, justify="right", overflow="fold")
    for number, part in enumerate(result["parts"][:MOST_PARTS]):
        means = [
            _mean(result, kinds[0], measure)[0][number],
            *(_mean(result, kind, measure)[-1][number] for kind in kinds),
        ]
        cells = [f"{mean:.1%}" if measure == "accuracy" else f"{mean:.4f}" for mean in means]
        table.add_row(*(Text(each) for each in (clean(part["title"], 40), f"{part['examples']:,}", *cells)))
    return table


def _mean(result: dict[str, Any], kind: str, measure: str) -> Any:
    """Return the mean over repeats, (steps + 1, parts)."""
    return np.mean([one[measure] for one in result["courses"] if one["kind"] == kind], axis=0)


def _chosen(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("times", "line"):
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("label")
    table.add_column("text", overflow="fold")
    for row in rows:
        text = clean(row["text"], WIDTH)
        if row["text_pair"] is not None:
            text += f" ⏐ {clean(row['text_pair'], WIDTH)}"
        table.add_row(*map(Text, (f"{row['times']}", f"{row['line']}", clean(str(row["label"])), text)))
    return table
