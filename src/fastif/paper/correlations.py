"""Table 2: how fast influence values agree with full ones, in three correlations and three comparisons.

*Full* is the original s_test on all training points; *fast* is kNN and the fast s_test, once with each k and each time
with draws of its own, as the paper's two fast systems are two computations. The paper correlates retrieved points
alone; here the truly strongest points, retrieved or not, stand beside them. So do scores that the paper does not
compare (`variants.py`).
"""

import statistics
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

import fastif
from fastif import metrics
from fastif.measuring.words import markdown
from fastif.paper.context import Context
from fastif.paper.figures_of_the_paper import CORRELATIONS
from fastif.paper.points import RIGHT, WRONG
from fastif.paper.recall import scores_of
from fastif.paper.variants import PAPERS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

name = "correlations"
title = "Table 2: correlations between fast and full influence values"
MEASURES: dict[str, Callable[[Tensor, Tensor], float]] = {
    "pearson": metrics.pearson,
    "spearman": metrics.spearman,
    "kendall": metrics.kendall,
}
SMALLER, LARGER, BOTH = CORRELATIONS
AGAINST = ", against full"  # ends the names of comparisons that the paper does not make
Row = dict[str, Any]


def run(context: Context) -> dict[str, Any]:
    """Score all training points with each of the three systems, and correlate."""
    wanted = context.settings.correlations
    model = context.model("nli-3")
    points = context.points(model, context.data.nli_dev(3), right=wanted.right, wrong=wanted.wrong)
    ks = [min(k, len(model.train)) for k in wanted.k]

    def scores(options: dict[str, Any], what: str) -> Tensor:
        explainer = context.explainer(model, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fastif.ConvergenceWarning)
            return scores_of(context, explainer, points, what)

    full = scores(PAPERS.options(wanted.full, context.seed), "full")
    one, two = (scores(PAPERS.options(wanted.fast, context.seed + draw), f"fast, {draw}") for draw in (1, 2))
    beside = {
        f"{variant.name}{AGAINST}": scores(variant.options(wanted.fast, context.seed + 1), variant.name)
        for variant in wanted.variants
        if variant.changes_scores
    }
    nearest = context.piece(
        "nearest", lambda: {"ids": context.explainer(model, solver=fastif.Identity()).nearest(points.examples, ks[1])}
    )["ids"]
    rows: list[Row] = []
    for query in range(len(points)):
        few, many = nearest[query, : ks[0]], nearest[query]
        truth = full[query].abs().argsort(descending=True, stable=True)[: wanted.top]
        found = {SMALLER: (one, full, few), LARGER: (two, full, many), BOTH: (one, two, few)}
        found |= {comparison: (values, full, few) for comparison, values in beside.items()}
        about = {
            "query": query,
            "prediction": RIGHT if points.right[query] else WRONG,
            "top_retrieved": [float(torch.isin(truth, ids).double().mean()) for ids in (few, many)],
        }
        for comparison, (left, right, ids) in found.items():
            for where, some in (("retrieved", ids), ("top", truth)):
                measured = {key: measure(left[query, some], right[query, some]) for key, measure in MEASURES.items()}
                rows.append({**about, "comparison": comparison, "on": where, **measured})
    return {"k": ks, "top": wanted.top, "examples": len(model.train), "points": points.as_json(), "rows": rows}


def mean_and_deviation(rows: list[Row], key: str) -> tuple[float, float]:
    """Return both in per cent."""
    values = [100 * row[key] for row in rows]
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def table(result: dict[str, Any]) -> str:
    """Return the three rows of the paper beside ours, on retrieved points and on the strongest, and then all others."""
    rows = []
    for comparison in dict.fromkeys(row["comparison"] for row in result["rows"]):
        theirs = CORRELATIONS.get(comparison)
        for where, words in (("retrieved", "retrieved points"), ("top", f"true top {result['top']}")):
            some = [row for row in result["rows"] if (row["comparison"], row["on"]) == (comparison, where)]
            ours = ["{:.1f} ± {:.1f}".format(*mean_and_deviation(some, key)) for key in MEASURES]
            paper = [
                "-" if theirs is None or where == "top" else "{:.1f} ± {:.2f}".format(*getattr(theirs, key))
                for key in MEASURES
            ]
            pairs = [f"{one} \\| {two}" for one, two in zip(paper, ours, strict=True)]
            rows.append([_in_words(comparison, result["k"]), words, *pairs])
    columns = ["comparison", "on", *(f"{key.capitalize()}: paper \\| ours" for key in MEASURES)]
    shares = [statistics.fmean(row["top_retrieved"][which] for row in result["rows"]) for which in (0, 1)]
    note = (
        f"In per cent, mean and deviation over {len(result['points'])} points; {result['examples']:,} training points "
        f"(the paper: 392,702, k = 1,000 and 10,000). Of the true top {result['top']}, {shares[0]:.0%} are retrieved "
        f"with k = {result['k'][0]:,} and {shares[1]:.0%} with k = {result['k'][1]:,}."
    )
    if any(row["comparison"] not in CORRELATIONS for row in result["rows"]):
        note += " What the paper does not compare is taken on the points of the smaller k."
    return markdown(columns, rows) + "\n\n" + note


def _in_words(comparison: str, ks: list[int]) -> str:
    return (
        comparison.replace("smaller against larger k", f"k = {ks[0]:,} against k = {ks[1]:,}")
        .replace("smaller k", f"k = {ks[0]:,}")
        .replace("larger k", f"k = {ks[1]:,}")
    )


def draw(result: dict[str, Any]) -> "dict[str, Figure]":
    """Draw every point of every comparison, beside the mean of the paper."""
    from matplotlib.figure import Figure

    from fastif.integrations.plots.style import COLOURS

    figure = Figure(figsize=(8, 3.4))
    grid = figure.subplots(1, len(MEASURES), sharey=True)
    for axes, key in zip(grid, MEASURES, strict=True):
        for place, (comparison, theirs) in enumerate(CORRELATIONS.items()):
            for number, (where, label) in enumerate(
                (("retrieved", "retrieved points"), ("top", f"true top {result['top']}"))
            ):
                some = [100 * r[key] for r in result["rows"] if (r["comparison"], r["on"]) == (comparison, where)]
                across = [place - 0.18 + 0.36 * number] * len(some)
                axes.plot(across, some, "o", ms=3, alpha=0.5, color=COLOURS[number], label=label)
            axes.plot(
                [place - 0.35, place + 0.05],
                [getattr(theirs, key)[0]] * 2,
                "-",
                color=COLOURS[6],
                lw=2,
                label="paper, mean",
            )
        axes.set_title(key.capitalize())
        axes.set_xticks(range(len(CORRELATIONS)))
        labels = [
            _in_words(comparison, result["k"]).replace(", ", "\n").replace(" against ", "\nagainst\n")
            for comparison in CORRELATIONS
        ]
        axes.set_xticklabels(labels, fontsize=7)
    grid[0].set_ylabel("correlation, %")
    handles = dict(zip(*reversed(grid[0].get_legend_handles_labels()), strict=True))
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=3)
    return {"correlations": figure}
