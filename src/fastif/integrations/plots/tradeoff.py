"""The trade-off of the paper's solver as a picture: error over J for each T, time over J, and one against the other."""

from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from fastif.apps.answers import ALL
from fastif.apps.traded import Setting, Traded
from fastif.integrations.plots.style import MARKERS, NEUTRAL, look

REFERENCES = {
    "to_expensive": "error against\nthe dearest setting",
    "to_converged": "error against\nthe converged solution",
}


def draw_tradeoff(done: Traded, group: str = ALL) -> Figure:
    """Draw errors of one group of queries: a row for each reference, a column for each T; and times beside them."""
    rows = [row for row in done.rows() if row.group == group]
    colours = _colours(done.batch_sizes)
    with look():
        figure = Figure(figsize=(3.0 * (len(done.repeats) + 1) + 1.2, 5.2))
        panels: Any = figure.subplots(2, len(done.repeats) + 1, squeeze=False)
        for number, (reference, words) in enumerate(REFERENCES.items()):
            for column, repeats in enumerate(done.repeats):
                panel = panels[number, column]
                mine = [row for row in rows if row.repeats == repeats]
                _over_depth(panel, mine, reference, colours)
                panel.set_yscale("log")
                panel.set_title(f"T = {repeats}" if number == 0 else "")
                if column:
                    panel.sharey(panels[number, 0])
            panels[number, 0].set_ylabel(words)
        no_solve = float(done.no_solve.mean())
        for column in range(len(done.repeats)):
            panels[1, column].axhline(
                no_solve, color=NEUTRAL, linestyle=":", linewidth=1.4, label="no solve: v / damping"
            )
            panels[1, column].set_xlabel("J, steps")
        _times(panels[0, -1], [row for row in rows if row.repeats == done.repeats[0]], colours, done.repeats[0])
        _against_time(panels[1, -1], rows, colours, done.repeats)
        handles, names = panels[1, 0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside right center")
    return figure


def _colours(batch_sizes: tuple[int, ...]) -> dict[int, Any]:
    """Return a colour for each B, from dark for the smallest to light."""
    colour_map = mpl.colormaps["viridis"]
    last = max(1, len(batch_sizes) - 1)
    return {size: colour_map(0.9 * number / last) for number, size in enumerate(batch_sizes)}


def _over_depth(panel: Any, rows: list[Setting], reference: str, colours: dict[int, Any]) -> None:
    for size, colour in colours.items():
        mine = [row for row in rows if row.batch_size == size]
        # the dearest setting has no error against itself, and no place on a log scale
        points = [(row.depth, getattr(row, reference)) for row in mine if getattr(row, reference) > 1e-9]
        if points:
            panel.plot(*zip(*points, strict=True), color=colour, marker="o", markersize=3, label=f"B = {size}")


def _times(panel: Any, rows: list[Setting], colours: dict[int, Any], repeats: int) -> None:
    for size, colour in colours.items():
        mine = [row for row in rows if row.batch_size == size]
        panel.plot([row.depth for row in mine], [row.seconds for row in mine], color=colour, marker="o", markersize=3)
    panel.set_yscale("log")
    panel.set_title(f"time, T = {repeats}")
    panel.set_ylabel("seconds for one query")
    panel.set_xlabel("J, steps")


def _against_time(panel: Any, rows: list[Setting], colours: dict[int, Any], repeats: tuple[int, ...]) -> None:
    for number, count in enumerate(repeats):
        mine = [row for row in rows if row.repeats == count]
        panel.scatter(
            [row.seconds for row in mine],
            [row.to_converged for row in mine],
            c=[colours[row.batch_size] for row in mine],
            marker=MARKERS[number % len(MARKERS)],
            s=14,
            label=f"T = {count}",
        )
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlabel("seconds for one query")
    panel.set_ylabel("error against\nthe converged solution")
    panel.legend(fontsize=8)
