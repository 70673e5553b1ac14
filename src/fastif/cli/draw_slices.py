"""The comparison of slices as a person reads it on a terminal: two tables and a few sentences."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fastif.apps.slices import Comparison, Kind
from fastif.cli.draw import clean

WIDEST = 8  # slices for which the correlations are a square; more are a list
LISTED = 12  # pairs of such a list, from each end
LETTERS = 30


def draw_comparison(found: Comparison, notes: list[str], summary: list[str], console: Console) -> None:
    """Draw everything."""
    console.print(Text(f"Edges are {found.choice}.", style="dim"))
    console.print(_slices(found))
    if len(found.slices) > 1:
        console.print(Text("\nCorrelation of mean influence, and over how many training points", style="bold"))
        console.print(_square(found) if len(found.slices) <= WIDEST else _list(found))
        for reason in dict.fromkeys(pair.reason for pair in found.pairs if pair.reason is not None):
            console.print(Text(f"none: {clean(reason)}", style="dim"))
    draw_words(notes, summary, console)


def draw_words(notes: list[str], summary: list[str], console: Console) -> None:
    """Draw what a person should know, and what is seen."""
    console.print()
    for words in notes:
        console.print(Text(f"Note: {clean(words)}", style="yellow"))
    console.print(Text("What it shows", style="bold"))
    for words in summary:
        console.print(Text(f"- {clean(words)}"))


def _slices(found: Comparison) -> Table:
    table = _table(["slice", "queries", "training points", "helpful edges", "mean |I|", "harmful edges", "mean |I|"])
    for it in found.slices:
        cells = [clean(it.name, LETTERS), f"{it.queries:,}", f"{it.train_points:,}", *_kind(it.helpful)]
        table.add_row(*(Text(cell) for cell in [*cells, *_kind(it.harmful)]))
    return table


def _kind(kind: Kind) -> list[str]:
    return [f"{kind.edges:,}", "none" if kind.mean is None else f"{kind.mean:.4g}"]


def _square(found: Comparison) -> Table:
    names = [it.name for it in found.slices]
    table = _table(["", *(clean(name, LETTERS) for name in names)])
    for first in names:
        pairs = [found.pair(first, second) for second in names]
        cells = [("none" if it.correlation is None else f"{it.correlation:.2f}") + f" ({it.points:,})" for it in pairs]
        table.add_row(Text(clean(first, LETTERS)), *map(Text, cells))
    return table


def _list(found: Comparison) -> Table:
    known = [(pair.correlation, pair) for pair in found.pairs if pair.correlation is not None]
    known = [(value, pair) for value, pair in known if pair.first != pair.second]
    ordered = [pair for _, pair in sorted(known, key=lambda it: -it[0])]
    shown = ordered if len(ordered) <= 2 * LISTED else [*ordered[:LISTED], *ordered[-LISTED:]]
    table = _table(["slice", "and slice", "r", "points"])
    for pair in shown:
        names = [clean(pair.first, LETTERS), clean(pair.second, LETTERS)]
        table.add_row(*map(Text, [*names, f"{pair.correlation:.2f}", f"{pair.points:,}"]))
    if len(shown) < len(ordered):
        table.add_row(Text(f"... {len(ordered) - len(shown)} between are in slices.json"))
    return table


def _table(columns: list[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for number, name in enumerate(columns):
        table.add_column(Text(name), justify="left" if number == 0 else "right")
    return table
