"""How fast all training examples are scored once s_test is known, and how near the fast scores are to exact ones.

    fastif bench scan

Stored states are warm when the scan is timed; the time to make them stands beside it. The naive and the batched way
(`baselines.py`) take time in proportion to the examples, so that both are timed on a sample and extrapolated. All
compute s . grad of the loss of each example: how far they differ is in the figures too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import fastif
from fastif import metrics, vectors
from fastif.measuring.baselines import Naive, batched_scores, full_precision
from fastif.measuring.case import Case
from fastif.measuring.engine import (
    Given,
    Settings,
    SharedCache,
    Stopwatch,
    explainer_for,
    forget_peak,
    operator_of,
    peak,
    seen_by,
    solver_of,
)
from fastif.measuring.timing import best_time
from fastif.measuring.words import agreement, markdown, number, ratio, seconds, size
from fastif.scoring import jvp
from fastif.vectors import Block

TOP = 100
CURVATURE_EXAMPLES = 500  # of the solve that gives s_test its direction


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Args:
        queries: the numbers of queries to score for.
        sample: examples that the baselines are timed on.
        reference: examples whose scores are compared with those in float32.
        uncached: examples whose scores are compared with those of a whole model in float32, without stored states.
        seed: of these samples.
    """

    queries: Sequence[int] = (1,)
    sample: int = 200
    reference: int = 20_000
    uncached: int = 1000
    seed: int = 0


def run(case: Case, settings: Settings, plan: Plan) -> dict[str, Any]:
    """Measure, and return the figures."""
    cache, watch = SharedCache(), Stopwatch()
    device = case.model.device.type
    block = directions(case, settings, cache, watch, max(plan.queries))
    encoding = watch.of("encoding the frozen layers")
    first = vectors.select(block, slice(0, 1))
    sample = _some(case, plan.sample, plan.seed)
    naive_s, naive = Naive(case).scores(sample, {name: tensor[0] for name, tensor in block.items()})
    rows = []
    for count in plan.queries:
        part = vectors.select(block, slice(0, count))
        explainer = explainer_for(case, settings, cache, solver=Given(part), progress=watch)
        forget_peak()
        cold, _ = best_time(lambda e=explainer, c=count: e.scores(case.first(c)), device, 1)  # type: ignore[misc]
        warm, scores = best_time(lambda e=explainer, c=count: e.scores(case.first(c)), device)  # type: ignore[misc]
        held = peak(device)
        batched_s, batched, way = batched_scores(case, part, sample)
        if count == plan.queries[0]:
            fast, kept = -scores.values[0], explainer
        rows.append(
            {
                "queries": count,
                "scan_s": warm,
                "first_scan_s": cold,
                "naive_s": naive_s * len(case.train) * count,
                "naive_s_for_each": naive_s,
                "batched_s": batched_s * len(case.train),
                "batched_way": way,
                "ratio_to_naive": naive_s * len(case.train) * count / warm,
                "ratio_to_batched": batched_s * len(case.train) / warm,
                "way": ", ".join(scores.provenance["scoring"]),
                "peak_bytes": held,
                "difference_to_naive": _difference(-scores.values[0, sample], naive),
                "difference_of_batched": _difference(batched[0].cpu(), naive),
            }
        )
    return {
        "prefix": None if encoding is None else _prefix(case, encoding),
        "rows": rows,
        "sample": len(sample),
        "fidelity": _fidelity(case, kept, first, fast, plan),
    }


def directions(case: Case, settings: Settings, cache: SharedCache, watch: Stopwatch, count: int) -> Block:
    """Return s_test of the first query, from a short solve, and gradients of others: time knows no difference."""
    subsample = min(CURVATURE_EXAMPLES, len(case.train))
    solver = fastif.ConjugateGradient(tolerance=0.1, subsample=subsample)
    explainer = explainer_for(case, settings, cache, solver=solver, progress=watch)
    damping = explainer.damping.value or 0.0
    queries = case.model.read(case.first(count), "queries")
    jacobian = operator_of(explainer).jacobian
    parts = [
        jacobian.gradients(case.model.place(batch), case.model.losses)
        for batch in queries.batches(max(1, min(32, count)))
    ]
    block = vectors.join(parts)
    solved = solver_of(explainer).solve(vectors.select(block, slice(0, 1)), damping).value
    return vectors.join([solved, vectors.select(block, slice(1, None))]) if count > 1 else solved


def _prefix(case: Case, encoding: float) -> dict[str, Any]:
    return {"seconds": encoding, "tokens": case.tokens, "tokens_per_s": case.tokens / encoding}


def _some(case: Case, count: int, seed: int) -> Tensor:
    order = torch.randperm(len(case.train), generator=torch.Generator().manual_seed(seed))
    return order[: min(count, len(order))]


def _difference(values: Tensor, truth: Tensor) -> float:
    return float((values.double() - truth.double()).norm() / truth.double().norm())


def _fidelity(case: Case, explainer: fastif.Explainer, first: Block, fast: Tensor, plan: Plan) -> dict[str, Any]:
    """Compare the fast scores with eager float32 ones: from the same stored states, and without any."""
    result: dict[str, Any] = {}
    for name, data, count in (
        ("same_states", seen_by(explainer), plan.reference),
        ("no_states", case.train, plan.uncached),
    ):
        ids = _some(case, count, plan.seed + 1)
        with full_precision():
            truth = jvp.scan(case.model, data, first, ids=ids)[0]
        result[name] = {"examples": len(ids), **compare(fast[ids], truth)}
    return result


def compare(values: Tensor, truth: Tensor) -> dict[str, float]:
    """Return how well scores agree with true ones: Pearson's correlation, and the overlap of the strongest 100."""
    top = min(TOP, len(truth))
    strongest = truth.abs().topk(top).indices
    return {
        "pearson": metrics.pearson(values, truth),
        "top": top,
        "overlap": metrics.recall_at(values.abs().topk(top).indices, strongest),
    }


def table(result: dict[str, Any]) -> str:
    """Return the figures as markdown."""
    rows = [
        [
            f"{row['queries']:,}",
            seconds(row["scan_s"]),
            seconds(row["first_scan_s"]),
            seconds(row["naive_s"]),
            seconds(row["batched_s"]),
            ratio(row["ratio_to_naive"]),
            ratio(row["ratio_to_batched"]),
            size(row["peak_bytes"]),
            f"{row['difference_to_naive']:.1e}",
        ]
        for row in result["rows"]
    ]
    columns = ["queries", "fastif", "first time", "naive (extrapolated)", "batched gradients (extrapolated)"]
    columns += ["against naive", "against batched", "peak memory", "difference to naive"]
    parts = []
    if result["prefix"]:
        made = result["prefix"]
        parts.append(
            f"Frozen layers, once: {seconds(made['seconds'])} for {made['tokens']:,} tokens, "
            f"{made['tokens_per_s']:,.0f} tokens a second."
        )
    parts.append(markdown(columns, rows))
    last = result["rows"][-1]
    parts.append(
        f"Naive: {seconds(last['naive_s_for_each'])} an example and query. Both baselines are timed on "
        f"{result['sample']:,} examples in the same run. Batched: {last['batched_way']}. Scored by: {last['way']}."
    )
    names = {"same_states": "from the same stored states", "no_states": "by the whole model, without stored states"}
    checks = [
        [names[name], f"{check['examples']:,}", agreement(check["pearson"]), number(check["overlap"])]
        for name, check in result["fidelity"].items()
    ]
    parts.append(
        markdown(["fast scores against eager float32 ones", "examples", "Pearson", "overlap of top 100"], checks)
    )
    return "\n\n".join(parts)
