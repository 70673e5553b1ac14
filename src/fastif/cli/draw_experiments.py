"""Retraining, simulation, recall and trade-off as tables on a terminal, with what they say in words below them."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fastif.apps.answers import in_words
from fastif.cli.draw import clean

LABEL = 30  # characters of a label


def draw_retraining_table(result: dict[str, Any], console: Console) -> None:
    """Draw the change of the loss by what was removed, a column for each number, with the noise beside it."""
    counts = sorted({each["count"] for each in result["lines"]})
    for group in dict.fromkeys(each["group"] for each in result["lines"]):
        console.print(Text(f"Change of the loss after retraining, {in_words(group)}", style="bold"))
        table = _table("removed", [f"{count:,}" for count in counts])
        mine = [each for each in result["lines"] if each["group"] == group]
        for name in dict.fromkeys(each["line"]["name"] for each in mine):
            found = {each["count"]: each for each in mine if each["line"]["name"] == name}
            _row(
                table,
                clean(name, LABEL),
                [f"{found[count]['mean']:+.3f}" if count in found else "" for count in counts],
            )
        noise = {each["count"]: each["deviation"] for each in result["noise"] if each["group"] == group}
        _row(table, "noise", [_spread(noise.get(count)) for count in counts], style="dim")
        console.print(table)
    _words(result, console)
    console.print(
        Text(
            "noise: the standard deviation of the same mean over random removals. Without a helpful example the loss "
            "should rise, without a harmful one it should fall.",
            style="dim",
        )
    )


def draw_simulation_table(result: dict[str, Any], console: Console) -> None:
    """Draw the change of the simulator's loss by kind, and how often each kind was the best."""
    console.print(
        Text("Change of the simulator's loss by one step, at the best learning rate of each kind", style="bold")
    )
    names = [found["group"] for found in result["groups"]]
    table = _table("step on", [column for name in names for column in (name, "best for")])
    for kind in result["kinds"]:
        cells = []
        for found in result["groups"]:
            cells += [f"{found['at_best_rate'][kind]:+.4f}", f"{found['best'][kind]} of {found['queries']}"]
        _row(table, clean(kind, LABEL), cells)
    console.print(table)
    _words(result, console)


def draw_recall_table(result: dict[str, Any], console: Console) -> None:
    """Draw R@m of every method over k: of the strongest, of the helpful and of the harmful, over all queries."""
    rows = [row for row in result["rows"] if row["group"] == "all"]
    ks = sorted({row["k"] for row in rows})
    for m in sorted({row["m"] for row in rows}):
        console.print(Text(f"R@{m:,}: strongest/most helpful/most harmful", style="bold"))
        table = _table("candidates by", [f"k = {k:,}" for k in ks])
        for method in dict.fromkeys(row["method"] for row in rows):
            found = {(row["k"], row["kind"]): row["mean"] for row in rows if (row["method"], row["m"]) == (method, m)}
            cells = ["/".join(_share(found[k, kind]) for kind in ("absolute", "helpful", "harmful")) for k in ks]
            _row(table, method, cells)
        console.print(table)
    _words(result, console)


def draw_tradeoff_table(result: dict[str, Any], console: Console) -> None:
    """Draw the errors and the time of every setting, over all queries."""
    rows = [row for row in result["rows"] if row["group"] == "all"]
    depths = sorted({row["depth"] for row in rows})
    shown = [depths[0], depths[-1]] if len(depths) > 1 else depths
    for depth in shown:
        console.print(Text(f"J = {depth:,}", style="bold"))
        table = _table("B, T", ["to the dearest", "to the converged", "seconds a query"])
        for row in (row for row in rows if row["depth"] == depth):
            cells = [f"{row['to_expensive']:.1%}", f"{row['to_converged']:.1%}", f"{row['seconds']:.2f}"]
            _row(table, f"{row['batch_size']}, {row['repeats']}", cells)
        console.print(table)
    _words(result, console)


def _table(first: str, columns: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column(first)
    for column in columns:
        table.add_column(column, justify="right", overflow="fold")
    return table


def _row(table: Table, name: str, cells: Sequence[str], style: str = "") -> None:
    table.add_row(*(Text(cell, style=style) for cell in (name, *cells)))


def _share(value: float) -> str:
    """Return a share in as few letters as a table has room for.

    >>> _share(0.254), _share(1.0)
    ('.25', '1.00')
    """
    return f"{value:.2f}".removeprefix("0")


def _spread(deviation: float | None) -> str:
    return "" if deviation is None else f"± {deviation:.3f}"


def _words(result: dict[str, Any], console: Console) -> None:
    console.print()
    for sentence in result["summary"]:
        console.print(Text(sentence))
