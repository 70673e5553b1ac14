"""Figure 3 (a): what share of the truly most influential training points is among the candidates.

The truth is a scan of all training points. Beside the paper's kNN by features stand three other ways to choose
candidates, and beside its damping others. A way to choose is kept as a number for each training point: the smallest k
at which it is a candidate, from which recall follows for every k.
"""

import math
from functools import partial
from textwrap import fill
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

import fastif
from fastif import ranking
from fastif.integrations.tables import TextTable
from fastif.keeping import Tensors
from fastif.measuring.words import markdown
from fastif.paper.context import Context
from fastif.paper.figures_of_the_paper import RECALL, RECALL_CLAIM
from fastif.paper.models import TaskModel
from fastif.paper.points import KINDS, RIGHT, WRONG, Points
from fastif.paper.settings import RecallSettings
from fastif.paper.variants import decay_of_the_authors
from fastif.solvers import Auto

if TYPE_CHECKING:
    from matplotlib.figure import Figure

name = "recall"
title = "Figure 3 (a): recall of candidates"
ABSOLUTE, HELPFUL, HARMFUL = "absolute", "helpful", "harmful"
SIGNS = (ABSOLUTE, HELPFUL, HARMFUL)
DIFFERENCE = "harmful - helpful"  # point by point, as the two recalls of a point belong together
AT_ONCE = 25  # queries whose scores are one piece
Row = dict[str, Any]


def run(context: Context) -> dict[str, Any]:
    """Scan for every point at every damping, and count what each way to choose candidates holds."""
    wanted = context.settings.recall
    model = context.model("nli-3")
    points = context.points(model, context.data.nli_dev(3), right=wanted.right, wrong=wanted.wrong)
    needed = {}
    for method in wanted.methods:
        make = partial(_needed, context, model, points, method)
        needed[method] = context.piece(f"candidates by {method}", make)["k"]
    rows: list[Row] = []
    used: dict[str, Any] = {}
    for truth, options in _truths(wanted).items():
        explainer = context.explainer(model, solver=_solver(wanted.curvature_examples, context.seed), **options)
        values = scores_of(context, explainer, points, f"damping {truth}")
        used[truth] = context.part(f"damping {truth}", partial(_damping, explainer))
        truths = {sign: [_strongest(row, sign, max(wanted.m)) for row in values] for sign in SIGNS}
        rows += [
            {"damping": truth, **row}
            for method, each in needed.items()
            for row in _counted(each, truths, points, method, context)
        ]
    sizes = [k for k in wanted.k if k <= len(model.train)]
    return {"examples": len(model.train), "k": sizes, "dampings": used, "points": points.as_json(), "rows": rows}


def _truths(wanted: RecallSettings) -> dict[str, dict[str, Any]]:
    """Return what is taken for the truth: each damping, and the first once more with weight decay in all gradients."""
    found: dict[str, dict[str, Any]] = {str(damping): {"damping": damping} for damping in wanted.dampings}
    if wanted.decay:
        first = wanted.dampings[0]
        found[f"{first}, weight decay in the gradients"] = {"damping": first, **decay_of_the_authors(wanted.decay)}
    return found


def _solver(examples: int | None, seed: int) -> Any:
    """Return what solves for the truth: the library's choice or, over few examples, as far as they are worth it."""
    if examples is None:
        return Auto(seed=seed)
    return fastif.ConjugateGradient(tolerance=0.01, subsample=examples, seed=seed)


def scores_of(context: Context, explainer: fastif.Explainer, points: Points, what: str) -> Tensor:
    """Return the scores of all training points for all queries, (queries, training points), kept in pieces."""
    parts = []
    for start in range(0, len(points), AT_ONCE):
        make = partial(_scores, explainer, points.part(start, start + AT_ONCE))
        parts.append(context.piece(f"scores, {what}, from {start}", make))
    return torch.cat([part["values"] for part in parts])


def _scores(explainer: fastif.Explainer, queries: TextTable) -> Tensors:
    return {"values": explainer.scores(queries).values}


def _damping(explainer: fastif.Explainer) -> dict[str, Any]:
    return {**explainer.damping.as_json(), "method": explainer.solver_description}


def _needed(context: Context, model: TaskModel, points: Points, method: str) -> Tensors:
    """Return the smallest k at which each training point is a candidate, (queries, training points)."""
    return {"k": _places(context, model, points, method)}


def _places(context: Context, model: TaskModel, points: Points, method: str) -> Tensor:
    total, count = len(model.train), len(points)
    if method == "random":
        draw = torch.Generator().manual_seed(context.seed)
        return torch.stack([torch.randperm(total, generator=draw) for _ in range(count)]) + 1
    if method == "gradient-dot":
        values = context.explainer(model, solver=fastif.Identity()).scores(points.examples).values
        return values.abs().argsort(dim=1, descending=True, stable=True).argsort(dim=1) + 1
    seen = context.models.states.view(model.classifier, model.train, progress=context.progress)
    neighbours = fastif.Nearest(total, by=method).prepare(model.classifier, seen, progress=context.progress)  # type: ignore[arg-type]
    batches = [model.classifier.place(points.examples.batch([row])) for row in range(count)]
    order = neighbours.select(batches, model.classifier.losses).ids(count)
    place = torch.arange(1, total + 1)
    if method == "head-gradient":  # half of the candidates from each end, the closest end first
        first = total - total // 2
        place = torch.cat([2 * torch.arange(first) + 1, 2 * torch.arange(total // 2) + 2])
    return torch.empty_like(order).scatter_(1, order, place.expand_as(order))


def _strongest(values: Tensor, sign: str, most: int) -> Tensor:
    ids = torch.arange(len(values))
    if sign == HELPFUL:
        return ranking.helpful(values, ids, most).ids
    return ranking.harmful(values.abs() if sign == ABSOLUTE else values, ids, most).ids


def _counted(
    needed: Tensor, truths: dict[str, list[Tensor]], points: Points, method: str, context: Context
) -> list[Row]:
    """Return mean and deviation of the recall over the points of each kind, for every sign, m and k."""
    wanted, total = context.settings.recall, needed.shape[1]
    shares = [round(each.share * total) for each in RECALL]
    rows = []
    for m in wanted.m:
        for k in sorted({k for k in (*wanted.k, *shares) if 0 < k <= total}):
            recalls = {sign: _recalls(needed, truth, m=m, k=k) for sign, truth in truths.items()}
            recalls[DIFFERENCE] = recalls[HARMFUL] - recalls[HELPFUL]
            for sign, each in recalls.items():
                for kind in KINDS:
                    some = each[points.of(kind)]
                    some = some[~some.isnan()]  # a query that nothing helps, or nothing harms
                    if len(some):
                        deviation = float(some.std()) if len(some) > 1 else 0.0
                        numbers = {"mean": float(some.mean()), "deviation": deviation, "points": len(some)}
                        rows.append({"sign": sign, "method": method, "prediction": kind, "m": m, "k": k, **numbers})
    return rows


def _recalls(needed: Tensor, truth: list[Tensor], *, m: int, k: int) -> Tensor:
    """Return for each point the share of its m strongest that are among k candidates."""
    found = [float((row[ids[:m]] <= k).double().mean()) for row, ids in zip(needed, truth, strict=True)]
    return torch.tensor(found, dtype=torch.float64)


def pick(rows: list[Row], **setting: Any) -> list[Row]:
    """Return the rows that have this setting, by k."""
    found = [row for row in rows if all(row[key] == value for key, value in setting.items())]
    return sorted(found, key=lambda row: row["k"])


def _words(rows: list[Row]) -> str:
    return ", ".join(f"{row['mean']:.2f} ± {row['deviation'] / math.sqrt(row['points']):.2f}" for row in rows) or "-"


def table(result: dict[str, Any]) -> str:
    """Return the paper's numbers beside ours at the same share of the training set, for every way and damping."""
    rows, total = result["rows"], result["examples"]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    depths = sorted({row["m"] for row in rows})
    shares, signs = [], []
    for damping in result["dampings"]:
        for theirs in RECALL:
            k = max(1, round(theirs.share * total))
            for m in depths:
                cells = [
                    " / ".join(
                        _words(pick(rows, damping=damping, method=method, m=m, k=k, sign=ABSOLUTE, prediction=kind))
                        for kind in KINDS
                    )
                    for method in methods
                ]
                paper = f"{theirs.recall:.2f} (chance {theirs.by_chance:.3g})"
                shares.append([damping, f"{k:,} ({theirs.share:.1%}; paper {theirs.k:,})", f"R@{m}", paper, *cells])
            for kind in KINDS:
                setting = {"damping": damping, "method": methods[0], "m": depths[0], "k": k, "prediction": kind}
                signs.append(
                    [
                        damping,
                        f"{k:,}",
                        kind,
                        *(_words(pick(rows, sign=sign, **setting)) for sign in (HARMFUL, HELPFUL)),
                    ]
                )
    parts = [
        f"Recall of the most influential points (absolute value), {RIGHT} / {WRONG} predictions, ± standard error:",
        markdown(
            ["damping", "k (share of all)", "", "paper, features", *(f"ours, {method}" for method in methods)], shares
        ),
        f"Paper ({RECALL_CLAIM.where}): {RECALL_CLAIM.words}. Ours, R@{depths[0]} by {methods[0]}:",
        markdown(["damping", "k", "prediction", "harmful", "helpful"], signs),
        f"{len(result['points'])} points, {total:,} training points. The truth is a scan of all training points; by "
        "damping: "
        + "; ".join(f"({name}) {used['damping']:.3g}, {used['method']}" for name, used in result["dampings"].items())
        + ".",
    ]
    return "\n\n".join(parts)


def draw(result: dict[str, Any]) -> "dict[str, Figure]":
    """Draw the paper's panels for kNN by features, and all ways to choose candidates beside each other."""
    return {"recall": _by_sign(result), "recall-methods": _by_method(result)}


def _by_sign(result: dict[str, Any]) -> "Figure":
    """Draw kNN by features at the first damping: a row for each kind of prediction, a column for each sign."""
    from matplotlib.figure import Figure

    from fastif.integrations.plots.style import COLOURS, MARKERS

    damping, rows_ = next(iter(result["dampings"])), _drawn(result)
    method, depths = rows_[0]["method"], sorted({row["m"] for row in rows_})
    figure = Figure(figsize=(8, 4.8))
    grid = figure.subplots(2, len(SIGNS), sharex=True, sharey=True)
    for line, kind in enumerate(KINDS):
        for column, sign in enumerate(SIGNS):
            axes = grid[line][column]
            for place, m in enumerate(depths):
                rows = pick(rows_, damping=damping, method=method, sign=sign, prediction=kind, m=m)
                axes.errorbar(
                    [row["k"] for row in rows],
                    [row["mean"] for row in rows],
                    [row["deviation"] for row in rows],
                    color=COLOURS[place],
                    marker=MARKERS[place],
                    ms=4,
                    capsize=2,
                    label=f"R@{m}",
                )
            _chance(axes, result)
            axes.set_title(f"{sign}, prediction {kind}")
            _axes_of_k(axes, line, column)
    figure.suptitle(f"kNN by {method}, damping {damping}, {result['examples']:,} training points", fontsize=9)
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _by_method(result: dict[str, Any]) -> "Figure":
    """Draw all ways at the smallest m: a row for each kind of prediction, a column for each damping."""
    from matplotlib.figure import Figure

    from fastif.integrations.plots.style import COLOURS, MARKERS

    dampings, rows = list(result["dampings"]), _drawn(result)
    methods, m = list(dict.fromkeys(row["method"] for row in rows)), min(row["m"] for row in rows)
    figure = Figure(figsize=(2.9 * len(dampings) + 1.5, 4.8))
    grid = figure.subplots(2, len(dampings), sharex=True, sharey=True, squeeze=False)
    for line, kind in enumerate(KINDS):
        for column, damping in enumerate(dampings):
            axes = grid[line][column]
            for place, method in enumerate(methods):
                some = pick(rows, damping=damping, method=method, sign=ABSOLUTE, prediction=kind, m=m)
                means = [row["mean"] for row in some]
                axes.plot(
                    [row["k"] for row in some], means, color=COLOURS[place], marker=MARKERS[place], ms=4, label=method
                )
            _chance(axes, result)
            axes.set_title(fill(f"damping {damping}, {kind}", 26))
            _axes_of_k(axes, line, column)
    figure.suptitle(f"R@{m} of the most influential points (absolute value)", fontsize=9)
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _drawn(result: dict[str, Any]) -> list[Row]:
    """Return the rows of the k that were asked for; others are for the table."""
    return [row for row in result["rows"] if row["k"] in result["k"]]


def _chance(axes: Any, result: dict[str, Any]) -> None:
    low, high = min(result["k"]), max(result["k"])
    sizes = [low * (high / low) ** (step / 50) for step in range(51)]
    axes.plot(sizes, [k / result["examples"] for k in sizes], "--", color="#222222", lw=1, label="chance")


def _axes_of_k(axes: Any, line: int, column: int) -> None:
    axes.set_xscale("log")
    axes.set_ylim(-0.03, 1.03)
    if line == 1:
        axes.set_xlabel("candidates k")
    if column == 0:
        axes.set_ylabel("recall")
