"""Retraining as a picture: the change of the queries' loss over the number of examples removed, with the noise."""

from collections.abc import Iterable
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from fastif.apps.answers import in_words
from fastif.apps.retrained import Change, Line, Noise, Retrained
from fastif.integrations.plots.style import HARMFUL, HELPFUL, INK, NEUTRAL, look

WIDTHS = 2  # standard deviations of the band
COLOURS = {"helpful": HELPFUL, "harmful": HARMFUL, "random": NEUTRAL}
STYLES = ("-", "--", ":", "-.")
MARKERS = {"helpful": "o", "harmful": "s", "random": "x"}


def draw_retraining(done: Retrained) -> Figure:
    """Draw a panel for each group of queries: lines for what was removed, a band for what random removals do."""
    lines, noise = done.lines(), done.noise()
    groups = list(dict.fromkeys(each.group for each in lines))
    with look():
        figure = Figure(figsize=(4.3 * len(groups) + 1.8, 3.6))
        panels: Any = figure.subplots(1, len(groups), squeeze=False)[0]
        styles = _styles(lines)
        for panel, group in zip(panels, groups, strict=True):
            mine = [each for each in lines if each.group == group]
            _band(panel, [each for each in noise if each.group == group])
            for line, drawn in styles.items():
                _line(panel, line, [each for each in mine if each.line == line], drawn)
            panel.axhline(0, color=INK, linewidth=0.6)
            count = max(each.queries for each in mine)
            panel.set_title(f"{in_words(group).capitalize()} ({count})")
            panel.set_xlabel("training examples removed")
            _ticks(panel, sorted({each.count for each in mine}))
        panels[0].set_ylabel("change of the query's loss after retraining")
        handles, names = panels[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside right center")
    return figure


def _styles(lines: Iterable[Change]) -> dict[Line, str]:
    """Return a dash for each line: systems differ in it, and random ones by label."""
    every = list(dict.fromkeys(each.line for each in lines))
    systems = list(dict.fromkeys(line.system for line in every if line.kind != "random"))
    labels = list(dict.fromkeys(line.label for line in every if line.kind == "random"))
    place = {line: labels.index(line.label) if line.kind == "random" else systems.index(line.system) for line in every}
    return {line: STYLES[place[line] % len(STYLES)] for line in every}


def _line(panel: Any, line: Line, points: list[Change], style: str) -> None:
    points = sorted(points, key=lambda each: each.count)
    errors = [each.error or 0.0 for each in points]
    panel.errorbar(
        [each.count for each in points],
        [each.mean for each in points],
        yerr=errors if any(errors) and line.kind != "random" else None,
        color=COLOURS[line.kind],
        linestyle=style,
        marker=MARKERS[line.kind],
        markersize=4,
        linewidth=1.0 if line.kind == "random" else 1.6,
        capsize=2,
        label=line.name,
    )


def _band(panel: Any, noise: list[Noise]) -> None:
    known = sorted((each for each in noise if each.deviation is not None), key=lambda each: each.count)
    if not known:
        return
    low, high = ([each.mean + sign * WIDTHS * (each.deviation or 0.0) for each in known] for sign in (-1, 1))
    name = f"noise: random removals,\nmean ± {WIDTHS} standard deviations"
    counts: list[float] = [each.count for each in known]
    if len(known) == 1:  # a band of one point has no width of its own
        counts, low, high = [0.8 * counts[0], 1.25 * counts[0]], 2 * low, 2 * high
    panel.fill_between(counts, low, high, color=NEUTRAL, alpha=0.25, linewidth=0, label=name)


def _ticks(panel: Any, counts: list[int]) -> None:
    panel.set_xscale("log")
    panel.xaxis.set_minor_locator(NullLocator())
    panel.set_xticks(counts, [str(count) for count in counts])
