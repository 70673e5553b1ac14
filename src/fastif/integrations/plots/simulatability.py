"""Simulatability as a picture: a panel for each query, the change of the simulator's loss over the learning rate."""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FormatStrFormatter, MaxNLocator, NullLocator

from fastif.apps.simulated import Simulated
from fastif.integrations.plots.style import COLOURS, HARMFUL, HELPFUL, INK, look

MOST = 20  # panels
WIDTH = 26  # characters of a title's line
ENTRY = 1.8  # inches of a name in the legend
NEARLY_NOTHING = 0.01  # changes up to which the axis is linear
TICKS = (-10, -1, -0.1, -0.01, 0, 0.01, 0.1, 1, 10)


def draw_simulatability(
    done: Simulated, *, titles: Sequence[str] | None = None, columns: int = 4, most: int = MOST
) -> Figure:
    """Draw the mean over examples of each kind as a line, and from the lowest to the highest as a shade.

    Queries that the model gets right come first; `titles` has a line for each query.
    """
    order = sorted(range(len(done.right)), key=lambda query: not done.right[query])[:most]
    columns = min(columns, len(order))
    rows = -(-len(order) // columns)
    colours = [HELPFUL, HARMFUL, *(COLOURS[2 + number % 5] for number in range(len(done.kinds) - 2))]
    curves = done.curves()
    with look():
        figure = Figure(figsize=(2.9 * columns + 0.6, 2.3 * rows + 0.8))
        panels: Any = figure.subplots(rows, columns, squeeze=False, sharex=True)
        for hidden in range(len(order), rows * columns):
            panels.flat[hidden].set_visible(False)
            panels.flat[hidden - columns].tick_params(labelbottom=True)  # nothing stands below it
        for panel, query in zip(panels.flat, order, strict=False):
            for row, kind in enumerate(done.kinds):
                mean, low, high = (curves[name][query, row].numpy() for name in ("mean", "lowest", "highest"))
                panel.fill_between(done.rates, low, high, color=colours[row], alpha=0.1, linewidth=0)
                panel.plot(done.rates, mean, color=colours[row], linewidth=1.5, label=kind)
            panel.axhline(0, color=INK, linewidth=0.6)
            panel.set_xscale("log")
            panel.set_yscale("symlog", linthresh=NEARLY_NOTHING)  # a loss can rise by far more than it can fall
            reached = max(map(abs, panel.get_ylim()))
            panel.yaxis.set_major_locator(FixedLocator(TICKS) if reached > NEARLY_NOTHING else MaxNLocator(5))
            panel.yaxis.set_major_formatter(FormatStrFormatter("%g"))
            panel.yaxis.set_minor_locator(NullLocator())
            verdict = {True: "right", False: "WRONG", None: ""}[done.right[query]]
            title = f"query {query + 1}: {verdict}" if titles is None else f"{verdict}: {_short(titles[query])}"
            panel.set_title(title, fontsize=8)
        figure.supxlabel("learning rate of one step", fontsize=9)
        figure.supylabel("change of the simulator's loss", fontsize=9)
        handles, names = panels.flat[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper center", ncols=max(1, int(figure.get_figwidth() / ENTRY)))
    return figure


def _short(text: str) -> str:
    line = " ".join(text.split()).replace("$", r"\$")
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"
