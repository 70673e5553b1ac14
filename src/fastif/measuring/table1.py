"""The rows of the paper's Table 1 on the hardware at hand: the same settings, by this library and by plain torch.

"Original" is LiSSA with batches of 128 and one run, "fast" with batches of one and four runs, both of 1,000 steps with
the Hessian, damp 5e-3 and scale 1e4; candidates are the k nearest by the features of the head. The paper's figures are
of V100 GPUs and include the reading of data. Without candidates, plain torch is extrapolated from a sample.
"""

import statistics
import warnings
from dataclasses import dataclass
from typing import Any

import torch

import fastif
from fastif.derivatives import gradients
from fastif.measuring.baselines import Naive
from fastif.measuring.case import Case
from fastif.measuring.engine import Settings, SharedCache, Stopwatch, explain, explainer_for, forget_peak, peak
from fastif.measuring.timing import best_time

STEPS = 1000  # J
KINDS = {  # B, T, curvature
    "original": (128, 1, "hessian"),
    "fast": (1, 4, "hessian"),
    "fast-compiled": (1, 4, "hessian"),  # the same steps, by torch.compile; a CPU takes them as they are
    "fast-gauss-newton": (1, 4, "gauss-newton"),
}


@dataclass(frozen=True)
class Row:
    """A cell of Table 1: candidates, kind of s_test, and the paper's minutes on one and on four GPUs."""

    k: int | None
    kind: str
    one_gpu: str | None
    four_gpus: str | None = None


ROWS = (
    Row(None, "original", "2 h or more"),
    Row(None, "fast", None),
    Row(10_000, "original", "14.72 min"),
    Row(10_000, "fast", "6.61 min", "2.36 min"),
    Row(1000, "original", "10.93 min"),
    Row(1000, "fast", "3.13 min", "1.46 min"),
    Row(1000, "fast-compiled", None),
    Row(1000, "fast-gauss-newton", None),
)


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Args:
        queries: how many queries are timed, one by one.
        depth: steps of LiSSA that are timed; below 1,000, the solve is extrapolated. Batches of one are run to the end
            on a GPU.
        fast_depth: the same for batches of one on a CPU; as `depth` unless given.
        sample: examples that the naive way is timed on; a tenth of it of Hessian products.
        kinds: which kinds of s_test.
        candidates: which numbers of candidates; 0 stands for all examples.
        seed: of all that is drawn.
        rows: what is measured, of these.
    """

    queries: int = 3
    depth: int = STEPS
    sample: int = 100
    kinds: tuple[str, ...] = tuple(KINDS)
    candidates: tuple[int, ...] = (0, 10_000, 1000)
    seed: int = 0
    rows: tuple[Row, ...] = ROWS
    fast_depth: int | None = None

    def depth_of(self, batch_size: int, device: str) -> int:
        """Return how many steps are timed."""
        if batch_size > 1:
            return self.depth
        return STEPS if device == "cuda" else self.fast_depth or self.depth


def run(case: Case, settings: Settings, plan: Plan) -> dict[str, Any]:
    """Measure every row, and return the figures."""
    cache, naive = SharedCache(), time_naive(case, plan)
    forget_peak()
    rows = [
        time_row(case, settings, cache, plan, row, naive)
        for row in plan.rows
        if row.kind in plan.kinds
        and (row.k or 0) in plan.candidates
        and (row.kind != "fast-compiled" or case.model.device.type == "cuda")
    ]
    return {"rows": rows, "naive": naive, "depth": plan.depth, "peak_bytes": peak(case.model.device.type)}


def time_row(
    case: Case, settings: Settings, cache: SharedCache, plan: Plan, row: Row, naive: dict[str, Any]
) -> dict[str, Any]:
    """Time one row: single queries with warm states and index, beside what plain torch would take."""
    size_, repeats, curvature = KINDS[row.kind]
    depth = plan.depth_of(size_, case.model.device.type)
    watch = Stopwatch()
    k = None if row.k is None else min(row.k, len(case.train))
    solver = fastif.LiSSA.paper(depth=depth, batch_size=size_, repeats=repeats, seed=plan.seed)
    explainer = explainer_for(
        case,
        settings,
        cache,
        solver=solver.compiled() if row.kind == "fast-compiled" else solver,
        curvature=curvature,
        candidates="all" if k is None else fastif.Nearest(k, by="features"),
        progress=watch,
    )
    device = case.model.device.type
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fastif.ConvergenceWarning)
        cold, _ = best_time(lambda: explain(explainer, case.first(1)), device, 1)
        times, solving_times, residuals = [], [], []
        for query in range(plan.queries):
            asked = _single(case, query)
            took, found = best_time(lambda a=asked: explain(explainer, a), device, 1)  # type: ignore[misc]
            solving = watch.of("solving") or 0.0
            times.append(took - solving + solving * STEPS / depth)
            solving_times.append(solving * STEPS / depth)
            residuals += found.scores.provenance["residuals"]
    mean = statistics.fmean(times)
    by_naive = naive["product_s"][str(size_)] * repeats * STEPS + naive["example_s"] * (k or len(case.train))
    return {
        "k": row.k,
        "kind": row.kind,
        "B": size_,
        "T": repeats,
        "paper_1_gpu": row.one_gpu,
        "paper_4_gpus": row.four_gpus,
        "seconds": mean,
        "solving_s": statistics.fmean(solving_times),
        "spread": statistics.stdev(times) if len(times) > 1 else None,
        "first_call_s": cold,
        "depth": depth,
        "extrapolated": depth < STEPS,
        "residual": max((each for each in residuals if each is not None), default=None),
        "naive_s": by_naive,
        "ratio_to_naive": by_naive / mean,
    }


def _single(case: Case, query: int) -> Any:
    asked = case.first(query + 1)
    return tuple(column[query:] for column in asked) if isinstance(asked, tuple) else asked[query:]


def time_naive(case: Case, plan: Plan) -> dict[str, Any]:
    """Time plain torch: the gradient of an example, and Hessian products of both batch sizes."""
    naive = Naive(case)
    batch = case.model.place(case.model.read(case.first(1), "queries").batch([0]))
    direction = {name: tensor[0] for name, tensor in gradients(case.model, batch).items()}
    order = torch.randperm(len(case.train), generator=torch.Generator().manual_seed(plan.seed))
    sample = order[: min(plan.sample, len(order))]
    each, _ = naive.scores(sample, direction)
    products = {}
    for size_ in sorted({KINDS[kind][0] for kind in plan.kinds}):
        rounds = max(1, plan.sample // 10 if size_ == 1 else plan.sample // 50)
        products[str(size_)] = naive.seconds_of_product(size_, direction, rounds=rounds, seed=plan.seed)
    return {"example_s": each, "product_s": products, "timed_on": len(sample)}
