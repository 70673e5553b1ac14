"""The course of a correction as a person reads it on a terminal: a table of the parts, and sentences."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fastif.cli.draw import WIDTH, clean

MOST_PARTS = 40
SHOWN = 5


def draw_correction(result: dict[str, Any], console: Console) -> None:
    """Draw the table, what was chosen, and what it means."""
    console.print(Text("Mean loss and accuracy, before and after the last step", style="bold"))
    console.print(_table(result))
    hidden = len(result["parts"]) - MOST_PARTS
    if hidden > 0:
        console.print(Text(f"... and {hidden} more parts in the file.", style="dim"))
    for kind, rows in result["chosen_examples"].items():
        if rows:
            console.print(Text(f"\nMost often {kind}", style="bold"))
            console.print(_chosen(rows[:SHOWN]))
    console.print(Text("\nIn words", style="bold"))
    for words in result["summary"]:
        console.print(Text(words))
    console.print(Text(f"Influence through {result['influence_through']}.", style="dim"))
    if result["how"]:
        console.print(Text(result["how"], style="dim"))


def _table(result: dict[str, Any]) -> Table:
    kinds = list(dict.fromkeys(one["kind"] for one in result["courses"]))
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("part")
    for name in ("examples", "start", *kinds):
        table.add_column(name, justify="right")
    for number, part in enumerate(result["parts"][:MOST_PARTS]):
        cells = [_cell(result, kinds[0], number, 0)]
        cells += [_cell(result, kind, number, -1) for kind in kinds]
        table.add_row(*(Text(each) for each in (clean(part["title"], 40), f"{part['examples']:,}", *cells)))
    return table


def _cell(result: dict[str, Any], kind: str, part: int, step: int) -> str:
    walks = [one for one in result["courses"] if one["kind"] == kind]
    loss, accuracy = (sum(one[name][step][part] for one in walks) / len(walks) for name in ("loss", "accuracy"))
    return f"{loss:.4f} {accuracy:6.1%}"


def _chosen(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("times", "line"):
        table.add_column(name, justify="right")
    table.add_column("label")
    table.add_column("text", overflow="fold")
    for row in rows:
        text = clean(row["text"], WIDTH)
        if row["text_pair"] is not None:
            text += f" ⏐ {clean(row['text_pair'], WIDTH)}"
        table.add_row(*map(Text, (f"{row['times']}", f"{row['line']}", clean(str(row["label"])), text)))
    return table
