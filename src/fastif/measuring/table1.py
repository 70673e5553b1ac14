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
from fastif.solvers.paper_lissa import PaperLiSSA

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
    k = None if row.k is None else min(row.k, len(case.train))
    solver = _solver(case, plan, batch_size=size_, repeats=repeats)
    found = time_queries(
        case,
        settings,
        cache,
        plan,
        depth=solver.depth,
        solver=solver.compiled() if row.kind == "fast-compiled" else solver,
        curvature=curvature,
        candidates="all" if k is None else cache.nearest(case.train, k),
    )
    by_naive = naive["product_s"][str(size_)] * repeats * STEPS + naive["example_s"] * (k or len(case.train))
    return {
        "k": row.k,
        "kind": row.kind,
        "B": size_,
        "T": repeats,
        "paper_1_gpu": row.one_gpu,
        "paper_4_gpus": row.four_gpus,
        **found,
        "naive_s": by_naive,
        "ratio_to_naive": by_naive / found["seconds"],
    }


def time_queries(
    case: Case, settings: Settings, cache: SharedCache, plan: Plan, *, depth: int, **options: Any
) -> dict[str, Any]:
    """Time single queries, one by one, of an explainer with some options.

    `depth` is how many of the paper's steps its solver takes: with fewer than all of them, the solve is extrapolated.
    A solver that does not say when it solves has no time of its own.
    """
    found = _timed(case, settings, cache, plan, depth=depth, **options)
    times = [query.seconds for query in found.queries]
    solving = [query.solving for query in found.queries if query.solving is not None]
    return {
        "seconds": statistics.fmean(times),
        "solving_s": statistics.fmean(solving) if solving else None,
        "scoring_s": statistics.fmean(query.scoring for query in found.queries),
        "spread": statistics.stdev(times) if len(times) > 1 else None,
        "first_call_s": found.cold,
        "depth": depth,
        "extrapolated": depth < STEPS,
        "residual": max((query.residual for query in found.queries if query.residual is not None), default=None),
        "method": found.method,
        "damping": found.damping,
    }


def time_one_repeat(case: Case, settings: Settings, cache: SharedCache, plan: Plan) -> dict[str, Any]:
    """Time the solve of the fast s_test with one repeat: what each of four GPUs does that run the four side by side.

    The solve is all that is asked for, so that one example is scored and no more.
    """
    size_, _, curvature = KINDS["fast"]
    solver = _solver(case, plan, batch_size=size_, repeats=1)
    how: dict[str, Any] = {"depth": solver.depth, "solver": solver, "curvature": curvature, "candidates": [0]}
    queries = _timed(case, settings, cache, plan, **how).queries
    times = [query.solving for query in queries if query.solving is not None]
    return {
        "B": size_,
        "T": 1,
        "solving_s": statistics.fmean(times),
        "spread": statistics.stdev(times) if len(times) > 1 else None,
        "depth": solver.depth,
        "extrapolated": solver.depth < STEPS,
    }


@dataclass(frozen=True)
class _Query:
    """What a query took: in all, of that the solve, and the scan of its candidates."""

    seconds: float
    solving: float | None
    scoring: float
    residual: float | None


@dataclass(frozen=True)
class _Timed:
    """What the first call took, in which all is made that later ones find; each query after it; and how it solves."""

    cold: float
    queries: list[_Query]
    method: str
    damping: float | None


def _solver(case: Case, plan: Plan, *, batch_size: int, repeats: int) -> PaperLiSSA:
    depth = plan.depth_of(batch_size, case.model.device.type)
    return fastif.LiSSA.paper(depth=depth, batch_size=batch_size, repeats=repeats, seed=plan.seed)


def _timed(case: Case, settings: Settings, cache: SharedCache, plan: Plan, *, depth: int, **options: Any) -> _Timed:
    """Time single queries, after a first call that does not count: it makes states and index, and records steps."""
    watch, device = Stopwatch(), case.model.device.type
    explainer = explainer_for(case, settings, cache, progress=watch, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fastif.ConvergenceWarning)
        cold, _ = best_time(lambda: explain(explainer, case.first(1)), device, 1)
        queries = []
        for number in range(plan.queries):
            watch.forget()
            asked = _single(case, number)
            took, found = best_time(lambda a=asked: explain(explainer, a), device, 1)  # type: ignore[misc]
            residuals = found.scores.provenance["residuals"]
            queries.append(_extrapolated(watch, took, depth, residuals[0]))
    return _Timed(cold, queries, explainer.solver_description, explainer.damping.value)


def _extrapolated(watch: Stopwatch, took: float, depth: int, residual: float | None) -> _Query:
    """Return what a query takes with all of the paper's steps: those alone are multiplied, all else stays."""
    solved = watch.of("solving")
    more = 0.0 if solved is None else solved * (STEPS / depth - 1)
    # the candidates come first; after them the strongest are scored again, for their errors
    return _Query(took + more, None if solved is None else solved + more, watch.first("scoring") or 0.0, residual)


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
