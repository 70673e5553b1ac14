"""Pictures of slices: how many helpful and harmful edges each has and how strong they are, and which are moved alike.

Knows `Comparison` alone.
"""

import math

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Rectangle

from fastif.apps.slices import Comparison, Pair, Slice
from fastif.integrations.plots.style import HARMFUL, HELPFUL, INK, look, shown_name

LOGARITHMIC = 30  # where the largest mean is so many times the smallest, bars of one scale would not be seen
MOST_NUMBERS = 16  # slices for which each cell of the map has its numbers
LETTERS = 30
KINDS = ((-0.2, 0, "helpful", HELPFUL), (0.2, 1, "harmful", HARMFUL))
UNKNOWN = "#EEEEEE"
# helpful together or harmful together is green, the one where the other is the other is purple; neither is a sign of I
ALIKE = LinearSegmentedColormap.from_list("alike", ["#762A83", "#F7F7F7", "#1B7837"])


def draw_slices(found: Comparison) -> Figure:
    """Draw the number and the mean |I| of the helpful and the harmful edges of each slice, as bars."""
    with look(), mpl.rc_context({"axes.grid.axis": "x"}):
        apart = ConstrainedLayoutEngine(wspace=0.05)  # or the last number of one axis meets the first of the other
        figure = Figure(figsize=(9.5, 1.5 + 0.55 * len(found.slices)), layout=apart)
        counts, means = figure.subplots(1, 2, sharey=True)
        _bars(counts, found.slices, [(it.helpful.edges, it.harmful.edges) for it in found.slices])
        counts.set_title("Edges" + (" (the choice sets how many)" if found.equal_counts else ""))
        both = [(it.helpful.mean or 0.0, it.harmful.mean or 0.0) for it in found.slices]
        there = [value for pair in both for value in pair if value]
        if there and max(there) > LOGARITHMIC * min(there):
            _dots(means, both)
            means.set_title("Mean |I| of an edge (logarithmic)")
        else:
            _bars(means, found.slices, both)
            means.set_title("Mean |I| of an edge")
        counts.set_ylim(len(found.slices) - 0.4, -0.6)  # of both, as they share it
        handles, names = counts.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=2)
    return figure


def _bars(axes: Axes, slices: tuple[Slice, ...], values: list[tuple[float, float]]) -> None:
    rows = np.arange(len(slices))
    for offset, column, name, colour in KINDS:
        widths = [pair[column] for pair in values]
        bars = axes.barh(rows + offset, widths, height=0.38, color=colour, label=name)
        axes.bar_label(bars, [_number(width) for width in widths], padding=3)
    axes.set_yticks(rows, [f"{shown_name(it.name, LETTERS)} ({it.queries:,})" for it in slices])
    axes.margins(x=0.18)


def _dots(axes: Axes, values: list[tuple[float, float]]) -> None:
    """Draw places in place of bars, whose length on a logarithmic scale would say nothing."""
    axes.set_xscale("log")
    for offset, column, _, colour in KINDS:
        for row, pair in enumerate(values):
            if not pair[column]:
                continue
            axes.plot(pair[column], row + offset, "o", color=colour, markersize=7)
            place = (pair[column], row + offset)
            axes.annotate(_number(pair[column]), place, xytext=(7, 0), textcoords="offset points", va="center")
    axes.margins(x=0.18)


def _number(value: float) -> str:
    if not value:
        return "none"
    return f"{value:,}" if isinstance(value, int) else f"{float(f'{value:.3g}'):,g}"


def draw_correlations(found: Comparison) -> Figure:
    """Draw a map of the correlations of slices, with the number of training points in each cell."""
    names = [it.name for it in found.slices]
    size = max(3.6, 1.6 + 0.95 * min(len(names), MOST_NUMBERS))
    with look(), mpl.rc_context({"axes.grid": False}):
        figure = Figure(figsize=(size + 1.4, size), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.06))
        axes = figure.subplots()
        grid = np.full((len(names), len(names)), np.nan)
        numbers = {name: number for number, name in enumerate(names)}
        for pair in found.pairs:
            for row, column in dict.fromkeys([(pair.first, pair.second), (pair.second, pair.first)]):
                grid[numbers[row], numbers[column]] = math.nan if pair.correlation is None else pair.correlation
                if len(names) <= MOST_NUMBERS or pair.correlation is None:
                    _cell(axes, pair, (numbers[column], numbers[row]), with_numbers=len(names) <= MOST_NUMBERS)
        image = axes.imshow(np.ma.masked_invalid(grid), cmap=ALIKE, vmin=-1, vmax=1)
        axes.set_xticks(range(len(names)), [shown_name(name, LETTERS) for name in names], rotation=30, ha="right")
        axes.set_yticks(range(len(names)), [shown_name(name, LETTERS) for name in names])
        axes.set_title("Correlation of mean influence over shared training points")
        figure.colorbar(image, ax=axes, label="Pearson's r", shrink=0.8)
    return figure


def _cell(axes: Axes, pair: Pair, place: tuple[int, int], *, with_numbers: bool) -> None:
    x, y = place
    known = pair.correlation is not None
    if not known:
        axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=UNKNOWN, edgecolor="white", hatch="///", lw=0))
    if with_numbers:
        words = f"{pair.correlation:.2f}" if known else "none"
        dark = known and abs(pair.correlation or 0.0) > 0.6
        axes.text(x, y - 0.08, words, ha="center", va="center", fontsize=10, color="white" if dark else INK)
        points = f"{pair.points:,} points" if pair.points != 1 else "1 point"
        axes.text(x, y + 0.22, points, ha="center", va="center", fontsize=7, color="white" if dark else INK)
