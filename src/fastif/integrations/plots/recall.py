"""Recall as a picture: R@m over the number of candidates k, by kind of influence or by method."""

from collections.abc import Callable
from typing import Any

from matplotlib.figure import Figure

from fastif.apps.answers import ALL, in_words
from fastif.apps.recall import KINDS, Recalled, RecallTable
from fastif.integrations.plots.style import COLOURS, HARMFUL, HELPFUL, INK, MARKERS, NEUTRAL, look

KIND_COLOURS = dict(zip(KINDS, (HELPFUL, HARMFUL, INK), strict=True))
CHANCE = "chance"


def draw_recall(table: RecallTable, method: str) -> Figure:
    """Draw one method as the paper does: a row for each group of queries, a column for each m, a line for each kind."""
    groups = [group for group in table.values("group") if group != ALL] or [ALL]

    def lines(panel: Any, group: str, m: int) -> None:
        for kind, colour in KIND_COLOURS.items():
            some = [row for row in table.rows if (row.method, row.kind, row.m, row.group) == (method, kind, m, group)]
            _line(panel, some, colour, MARKERS[KINDS.index(kind)], kind)

    return _panels(table, groups, lambda group: in_words(group).capitalize(), lines)


def draw_recall_methods(table: RecallTable, group: str = ALL) -> Figure:
    """Draw all methods beside each other: a row for each kind, a column for each m, a line for each method."""
    methods = [method for method in table.values("method") if method != "random"]

    def lines(panel: Any, kind: str, m: int) -> None:
        for number, method in enumerate(methods):
            some = [row for row in table.rows if (row.method, row.kind, row.m, row.group) == (method, kind, m, group)]
            _line(panel, some, COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)], method)

    return _panels(table, list(KINDS), lambda kind: f"{kind}, {in_words(group)}", lines)


def _panels(
    table: RecallTable, rows: list[str], name: Callable[[str], str], lines: Callable[[Any, str, int], None]
) -> Figure:
    ms, ks = table.values("m"), table.values("k")
    with look():
        figure = Figure(figsize=(2.9 * len(ms) + 1.8, 2.3 * len(rows) + 0.6))
        panels: Any = figure.subplots(len(rows), len(ms), squeeze=False, sharex=True, sharey=True)
        for number, row in enumerate(rows):
            for column, m in enumerate(ms):
                panel = panels[number, column]
                lines(panel, row, m)
                shares = [k / table.examples for k in ks]
                panel.plot(ks, shares, color=NEUTRAL, linestyle=":", linewidth=1.2, label=CHANCE)
                panel.set_xscale("log")
                panel.set_ylim(-0.03, 1.03)
                panel.set_title(f"R@{m:,}" if number == 0 else "")
            panels[number, 0].set_ylabel(name(row), fontsize=8)
        figure.supxlabel(f"candidates k, of {table.examples:,} training examples", fontsize=9)
        handles, names = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside right center")
    return figure


def _line(panel: Any, some: list[Recalled], colour: str, marker: str, name: str) -> None:
    some = sorted(some, key=lambda row: row.k)
    spread = [row.deviation or 0.0 for row in some]
    panel.errorbar(
        [row.k for row in some],
        [row.mean for row in some],
        yerr=spread if any(spread) else None,
        color=colour,
        marker=marker,
        markersize=4,
        linewidth=1.5,
        elinewidth=0.8,
        capsize=2,
        label=name,
    )
