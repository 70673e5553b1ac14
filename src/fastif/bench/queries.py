"""How long one waits from the text of queries to their strongest 100 training examples, for one query and for many.

    fastif bench queries

States and what the solver prepares are warm when the time is taken; the first call, which makes them, stands beside it.
The naive way is, for each query, LiSSA with 1,000 Hessian products of one example through the whole model (the paper's
with T = 1, its cheapest) and one backward pass for each training example, timed on a sample and extrapolated. Two-stage
search scores only the training examples whose head gradient says that they may matter; its recall is counted against
the scores of all. Last, straight lines are fitted to the time over examples and over queries.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

import fastif
from fastif import metrics
from fastif.bench.timing import line_fit
from fastif.explanation import Explanation
from fastif.measuring.baselines import Naive
from fastif.measuring.case import Case
from fastif.measuring.engine import (
    TOP,
    Given,
    Settings,
    SharedCache,
    Stopwatch,
    Warm,
    explain,
    explainer_for,
    forget_peak,
    operator_of,
    peak,
    solver_of,
)
from fastif.measuring.timing import REPEATS, best_time
from fastif.measuring.words import markdown, number, ratio, seconds, size
from fastif.vectors import Block

STEPS = 1000  # J of the naive LiSSA
FEW = 16  # queries: what is asked for more is timed once, and in one stage alone
PARTS = (0.25, 0.5, 0.75, 1.0)  # of the examples, for the line


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Args:
        queries: the numbers of queries to explain.
        sample: examples that the naive way is timed on; a tenth of it of Hessian products.
        nearest: candidates of the two-stage search; None for a twentieth of the examples.
        tolerance: relative residual that the solve goes to; None leaves it to the library.
        seed: of all that is drawn.
    """

    queries: Sequence[int] = (1, 16, 64, 400)
    sample: int = 200
    nearest: int | None = None
    tolerance: float | None = None
    seed: int = 0


def run(case: Case, settings: Settings, plan: Plan) -> dict[str, Any]:
    """Measure, and return the figures."""
    cache, watch, device = SharedCache(), Stopwatch(), case.model.device.type
    options: dict[str, Any] = {}
    if plan.tolerance is not None:
        options["solver"] = fastif.ConjugateGradient(tolerance=plan.tolerance, seed=plan.seed)
    forget_peak()
    explainer = explainer_for(case, settings, cache, progress=watch, **options)
    cold, full = best_time(lambda: explain(explainer, case.first(1)), device, 1)
    block = gradient(case, explainer)
    naive_s = naive_query(case, block, plan)
    rows = []
    for count in plan.queries:
        repeats = REPEATS if count <= FEW else 1
        took, found = best_time(lambda c=count: explain(explainer, case.first(c)), device, repeats)  # type: ignore[misc]
        stages = {"solving": watch.of("solving"), "scoring": watch.of("scoring")}
        rows.append(_row(count, "all examples", took, naive_s, found) | stages)
        full = found if count == max(plan.queries) else full
    first = None
    if device == "cpu":
        first, some = _two_stages(case, settings, cache, plan, explainer, full, naive_s)
        rows += some
    return {
        "rows": rows,
        "first_call_s": cold,
        "first_call_two_stages_s": first,
        "naive": naive_s,
        "examples_line": _examples_line(case, settings, cache, block),
        "queries_line": _queries_line(rows),
        "peak_bytes": peak(device),
        "chosen": explainer.solver_description,
        "damping": str(explainer.damping),
    }


def _two_stages(
    case: Case,
    settings: Settings,
    cache: SharedCache,
    plan: Plan,
    explainer: fastif.Explainer,
    full: Explanation,
    naive_s: dict[str, Any],
) -> tuple[float, list[dict[str, Any]]]:
    """Return the time of a first search among candidates, and the rows of those after it; a GPU scores all sooner."""
    k = min(plan.nearest or max(TOP, len(case.train) // 20), len(case.train))
    warm: dict[str, Any] = {"solver": Warm(solver_of(explainer)), "damping": explainer.damping.value}
    near = explainer_for(case, settings, cache, candidates=fastif.Nearest(k), **warm)
    first, _ = best_time(lambda: explain(near, case.first(1)), "cpu", 1)
    rows = []
    for count in (each for each in plan.queries if each <= FEW):
        took, found = best_time(lambda c=count: explain(near, case.first(c)), "cpu")  # type: ignore[misc]
        recall = {f"recall_{top}": true_recall(found, full, top) for top in (10, TOP)}
        rows.append(_row(count, f"two stages, {k:,} candidates", took, naive_s, found) | recall)
    return first, rows


def gradient(case: Case, explainer: fastif.Explainer) -> Block:
    """Return the gradient of the first query: a direction to score along, for timing."""
    batch = case.model.place(case.model.read(case.first(1), "queries").batch([0]))
    return operator_of(explainer).jacobian.gradients(batch, case.model.losses)


def naive_query(case: Case, block: Block, plan: Plan) -> dict[str, Any]:
    """Return what a query takes the naive way, extrapolated."""
    naive = Naive(case)
    direction = {name: tensor[0] for name, tensor in block.items()}
    order = torch.randperm(len(case.train), generator=torch.Generator().manual_seed(plan.seed))
    sample = order[: min(plan.sample, len(order))]
    each, _ = naive.scores(sample, direction)
    product = naive.seconds_of_product(1, direction, rounds=max(1, plan.sample // 10), seed=plan.seed)
    scores_s, solve_s = each * len(case.train), product * STEPS
    return {"example_s": each, "product_s": product, "scores_s": scores_s, "solve_s": solve_s, "timed_on": len(sample)}


def true_recall(found: Explanation, full: Explanation, top: int) -> float:
    """Return the mean share of the strongest examples by the scores of all that a search found among its strongest."""
    recalls = []
    for row in range(min(len(found.scores.values), len(full.scores.values))):
        strongest = full.scores.values[row].abs().topk(min(top, full.scores.values.shape[1])).indices
        mine = found.scores.values[row].abs().topk(min(top, found.scores.values.shape[1])).indices
        recalls.append(metrics.recall_at(found.scores.train_ids[row][mine], full.scores.train_ids[row][strongest]))
    return sum(recalls) / len(recalls)


def _row(count: int, way: str, took: float, naive: dict[str, Any], found: Explanation) -> dict[str, Any]:
    residuals = [each for each in found.scores.provenance["residuals"] if each is not None]
    return {
        "way": way,
        "queries": count,
        "seconds": took,
        "s_for_each": took / count,
        "naive_s": count * (naive["scores_s"] + naive["solve_s"]),
        "ratio_to_naive": count * (naive["scores_s"] + naive["solve_s"]) / took,
        "ratio_to_naive_scores": count * naive["scores_s"] / took,
        "residual": max(residuals, default=None),
        "recall_10": None,
        "recall_100": None,
    }


def _examples_line(case: Case, settings: Settings, cache: SharedCache, block: Block) -> dict[str, Any]:
    """Fit a line to the time of scoring for one query over the number of examples."""
    counts, times = [], []
    for share in PARTS:
        count = max(1, round(share * len(case.train)))
        some = torch.randperm(len(case.train), generator=torch.Generator().manual_seed(0))[:count].sort().values
        explainer = explainer_for(case, settings, cache, candidates=some, solver=Given(block))
        explain(explainer, case.first(1))
        took, _ = best_time(lambda e=explainer: explain(e, case.first(1)), case.model.device.type, 1)  # type: ignore[misc]
        counts.append(float(count))
        times.append(took)
    return {"examples": counts, "seconds": times, **line_fit(counts, times)}


def _queries_line(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Fit a line to the time over the number of queries; None of one point."""
    mine = [row for row in rows if row["way"] == "all examples"]
    if len(mine) < 2:
        return None
    counts, times = [float(row["queries"]) for row in mine], [row["seconds"] for row in mine]
    return {"queries": counts, "seconds": times, **line_fit(counts, times)}


def table(result: dict[str, Any]) -> str:
    """Return the figures as markdown."""
    rows = [
        [
            f"{row['queries']:,}",
            row["way"],
            seconds(row["seconds"]),
            seconds(row["s_for_each"]),
            seconds(row["naive_s"]),
            ratio(row["ratio_to_naive"]),
            ratio(row["ratio_to_naive_scores"]),
            number(row["residual"], 2),
            f"{number(row['recall_10'], 2)} / {number(row['recall_100'], 2)}"
            if row["recall_10"] is not None
            else "all",
        ]
        for row in result["rows"]
    ]
    columns = ["queries", "scored", "fastif", "a query", "naive (extrapolated)", "against naive"]
    columns += ["against naive scores alone", "residual", "recall@10 / @100"]
    naive, line = result["naive"], result["examples_line"]
    parts = [
        markdown(columns, rows),
        f"{result['chosen']}; {result['damping']}. First call, which makes all that is kept: "
        f"{seconds(result['first_call_s'])}. Peak memory {size(result['peak_bytes'])}. Naive: "
        f"{seconds(naive['example_s'])} for the gradient of an example, timed on {naive['timed_on']:,} of them, and "
        f"{STEPS:,} Hessian products of {seconds(naive['product_s'])}.",
        f"Scoring n examples for one query: {seconds(line['constant'])} + {1e6 * line['slope']:.3g} s x n / 1,000,000, "
        f"R^2 = {line['r2']:.4f} ({len(line['examples'])} sizes).",
    ]
    if result["queries_line"]:
        line = result["queries_line"]
        parts.append(
            f"Q queries over all examples: {seconds(line['constant'])} + {seconds(line['slope'])} x Q, "
            f"R^2 = {line['r2']:.4f} ({len(line['queries'])} sizes)."
        )
    return "\n\n".join(parts)
