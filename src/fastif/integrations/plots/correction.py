"""The course of a correction: loss and accuracy over the steps, a panel for each slice and for the original data.

Reads what `fastif correct` writes (correction.json), so that a figure can be drawn again from it. Lines are means over
repeats and bands reach from the lowest to the highest, as in the paper.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from fastif.integrations.plots.style import COLOURS, HARMFUL, HELPFUL, INK, NEUTRAL, look

KINDS = {
    "helpful": (HELPFUL, "o"),
    "harmful": (HARMFUL, "s"),
    "random": (NEUTRAL, "^"),
    "anchors": (COLOURS[3], "D"),
}
NAMES = {"loss": "mean loss", "accuracy": "accuracy"}
COLUMNS, MOST_PARTS = 5, 15
WIDE, HIGH = 2.5, 2.0  # of one panel, in inches
TITLE = 28  # letters of a part's name


def draw_courses(result: dict[str, Any], *, title: str = "") -> Figure:
    """Draw the walks of a correction."""
    parts = result["parts"][:MOST_PARTS]
    rows = -(-len(parts) // COLUMNS)
    columns = -(-len(parts) // rows)  # rows of about one length
    with look():
        figure = Figure(figsize=(max(5.2, WIDE * columns), 2 * HIGH * rows + 0.7))
        grid = figure.subplots(2 * rows, columns, squeeze=False, sharex=True)
        for number in range(rows * columns):
            row, column = divmod(number, columns)
            above, below = grid[2 * row][column], grid[2 * row + 1][column]
            if number >= len(parts):
                above.set_visible(False)
                below.set_visible(False)
                continue
            _panel(above, result, number, "loss")
            _panel(below, result, number, "accuracy")
            _fit(below, "accuracy")
            above.set_title(f"{_short(parts[number]['title'])}\n{parts[number]['examples']:,} examples")
            below.set_xlabel("steps")
            below.tick_params(labelbottom=True)
            if column == 0:
                above.set_ylabel(NAMES["loss"])
                below.set_ylabel(NAMES["accuracy"])
        handles, names = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=len(names))
        bands = bands_in_words(result)
        figure.suptitle(f"{title}: {bands}" if title else bands.capitalize(), fontsize=10, color=INK)
    return figure


def bands_in_words(result: Mapping[str, Any]) -> str:
    """Return what the lines and bands of some walks are.

    >>> walks = [{"repeat": number} for number in range(15)]
    >>> bands_in_words({"courses": walks, "models": 3})
    'mean and range of 3 models with 5 repeats each'
    """
    repeats, models = len({one["repeat"] for one in result["courses"]}), result.get("models", 1)
    if models > 1:
        return f"mean and range of {models} models with {repeats // models} repeats each"
    return f"mean and range of {repeats} repeats" if repeats > 1 else "one repeat"


def draw_by_slice(results: Mapping[str, dict[str, Any]], *, measure: str, title: str = "") -> Figure:
    """Draw a row of panels for each slice that anchors were drawn from, a column for each part that was measured."""
    parts = next(iter(results.values()))["parts"][:MOST_PARTS]
    with look():
        figure = Figure(figsize=(max(5.2, WIDE * len(parts)), HIGH * len(results) + 0.9))
        grid = figure.subplots(len(results), len(parts), squeeze=False, sharex=True, sharey="col")
        for row, (name, result) in enumerate(results.items()):
            for column, part in enumerate(parts):
                _panel(grid[row][column], result, column, measure)
                if row == 0:
                    grid[row][column].set_title(f"{_short(part['title'])}\n{part['examples']:,} examples")
            grid[row][0].set_ylabel(f"anchors: {_short(name)}\n{NAMES[measure]}")
        for axes in grid.flat:
            _fit(axes, measure)
        for axes in grid[-1]:
            axes.set_xlabel("steps")
        handles, names = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=len(names))
        if title:
            figure.suptitle(title, fontsize=10, color=INK)
    return figure


def _panel(axes: Axes, result: dict[str, Any], part: int, measure: str) -> None:
    kinds = [kind for kind in KINDS if any(one["kind"] == kind for one in result["courses"])]
    for kind in kinds:
        colour, marker = KINDS[kind]
        walks = np.array([one[measure] for one in result["courses"] if one["kind"] == kind])[:, :, part]
        steps = np.arange(walks.shape[1])
        every = max(1, walks.shape[1] // 10)
        axes.fill_between(steps, walks.min(axis=0), walks.max(axis=0), color=colour, alpha=0.15, linewidth=0)
        axes.plot(
            steps, walks.mean(axis=0), color=colour, marker=marker, markersize=3.5, linewidth=1.2, label=kind,
            markevery=every,
        )  # fmt: skip
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))
    axes.margins(x=0.03)


def _fit(axes: Axes, measure: str) -> None:
    """Fit the scale to what was drawn, when all is drawn that shares it."""
    if measure == "accuracy":
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, -0.005), min(high, 1.005))  # nothing lies beyond
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=_decimals(axes)))


def _decimals(axes: Axes) -> int:
    """Return how many digits tell the ticks of an axis apart."""
    low, high = axes.get_ylim()
    return 0 if high - low > 0.05 else 1 if high - low > 0.005 else 2


def _short(title: str) -> str:
    return title if len(title) <= TITLE else title[: TITLE - 1] + "…"
