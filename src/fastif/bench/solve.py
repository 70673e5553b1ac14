"""How fast (H + damping I) x = v is solved: by the library's own choice, by each solver alone, and by plain torch.

    fastif bench solve

Each solver is timed when it is prepared (what all queries share) and at its solve; the residual says how far it came,
so that a fast solver that did not converge is seen for what it is. The naive way is the paper's: LiSSA whose Hessian
products go through the whole model, timed on a few products and extrapolated.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import fastif
from fastif.errors import FastifError
from fastif.measuring.baselines import Naive
from fastif.measuring.case import Case
from fastif.measuring.engine import (
    Settings,
    SharedCache,
    Stopwatch,
    explainer_for,
    forget_peak,
    operator_of,
    peak,
    solver_of,
)
from fastif.measuring.timing import best_time
from fastif.measuring.words import markdown, number, seconds, size
from fastif.solvers import Solver
from fastif.vectors import Block

AUTOMATIC = "automatic"
PAPER_STEPS = 1000  # J
NAIVE = {"the paper's, B = 1, T = 4": (1, 4), "the paper's original, B = 128, T = 1": (128, 1)}


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Args:
        queries: how many are solved together, by the library's own choice.
        depth: steps of LiSSA; fewer than the paper's 1,000 are a sample, from which the time is extrapolated.
        products: naive Hessian products of one example that are timed; of 128, a tenth of that.
        rank: of the Nystrom preconditioner.
        tolerance: relative residual that conjugate gradients go to.
        seed: of all that is drawn.
    """

    queries: Sequence[int] = (1, 16, 64, 400)
    depth: int = PAPER_STEPS
    products: int = 20
    rank: int = 32
    tolerance: float = 1e-2
    seed: int = 0


def run(case: Case, settings: Settings, plan: Plan) -> dict[str, Any]:
    """Measure, and return the figures."""
    cache, watch, device = SharedCache(), Stopwatch(), case.model.device.type
    forget_peak()
    options: dict[str, Any] = {"candidates": [0], "progress": watch}  # so that scoring takes no time
    explainer = explainer_for(case, settings, cache, **options)
    preparing, damping = best_time(lambda: explainer.damping.value or 0.0, device, 1)
    preparing -= watch.of("encoding the frozen layers") or 0.0
    rows = [_automatic(case, explainer, count, device, preparing) for count in plan.queries]
    batch = case.model.read(case.first(1), "queries").batch([0])
    vector = operator_of(explainer).jacobian.gradients(case.model.place(batch), case.model.losses)
    rows[0]["iterations"] = _quiet(lambda: solver_of(explainer).solve(vector, damping)).iterations
    for name, solver in solvers(explainer, plan).items():
        rows.append(_one(name, solver, explainer, vector, watch, plan))
    return {
        "rows": rows,
        "naive": _naive(case, vector, plan),
        "damping": damping,
        "chosen": explainer.solver_description,
        "curvature_examples": operator_of(explainer).examples,
        "peak_bytes": peak(device),
    }


def solvers(explainer: fastif.Explainer, plan: Plan) -> dict[str, Solver]:
    """Return the solvers to compare, all on the examples that the library's own choice takes."""
    used: Any = getattr(solver_of(explainer), "operator", operator_of(explainer))
    some = None if used.examples == operator_of(explainer).examples else used.examples
    cg: dict[str, Any] = {"tolerance": plan.tolerance, "subsample": some, "seed": plan.seed}
    return {
        "conjugate gradients": fastif.ConjugateGradient(**cg),
        f"conjugate gradients, Nystrom of rank {plan.rank}": fastif.ConjugateGradient(
            **cg, preconditioner_rank=plan.rank
        ),
        "LiSSA, step from the spectrum, B = 16, T = 4": fastif.LiSSA(depth=plan.depth, seed=plan.seed),
        "LiSSA of the paper, B = 1, T = 4": fastif.LiSSA.paper(depth=plan.depth, seed=plan.seed),
    }


def _automatic(case: Case, explainer: fastif.Explainer, count: int, device: str, preparing: float) -> dict[str, Any]:
    """Time the explainer's own solver on a block of queries, from their gradients on."""
    took, scores = best_time(lambda: _quiet(lambda: explainer.scores(case.first(count))), device)
    residuals = [each for each in scores.provenance["residuals"] if each is not None]
    return {
        "solver": AUTOMATIC,
        "queries": count,
        "prepare_s": preparing,
        "solve_s": took,
        "s_for_each": took / count,
        "iterations": None,
        "residual": max(residuals, default=None),
        "extrapolated": False,
        "failed": None,
    }


def _one(
    name: str, solver: Solver, explainer: fastif.Explainer, vector: Block, watch: Stopwatch, plan: Plan
) -> dict[str, Any]:
    """Time one solver on one query."""
    device = next(iter(vector.values())).device.type
    operator, damping = operator_of(explainer), explainer.damping.value or 0.0
    row: dict[str, Any] = {"solver": name, "queries": 1, "extrapolated": False, "failed": None}
    try:
        preparing, prepared = best_time(lambda: solver.prepare(operator), device, 1)
        if hasattr(prepared, "stable_scale"):  # the spectrum, which LiSSA asks for at its first solve
            preparing += best_time(lambda: prepared.stable_scale(damping), device, 1)[0]
        took, solution = best_time(lambda: _quiet(lambda: prepared.solve(vector, damping)), device, 1)
    except FastifError as error:
        blank = dict.fromkeys(("prepare_s", "solve_s", "s_for_each", "iterations", "residual"))
        return {**row, **blank, "failed": str(error)}
    if "LiSSA" in name and plan.depth < PAPER_STEPS:
        took, row["extrapolated"] = took + (watch.of("solving") or 0.0) * (PAPER_STEPS / plan.depth - 1), True
    residual = None if solution.residual is None else float(solution.residual.max())
    figures = {"prepare_s": preparing, "solve_s": took, "s_for_each": took, "residual": residual}
    return {**row, **figures, "iterations": solution.iterations}


def _naive(case: Case, vector: Block, plan: Plan) -> list[dict[str, Any]]:
    """Time Hessian products through the whole model, and extrapolate to the paper's number of them."""
    naive, direction = Naive(case), {name: tensor[0] for name, tensor in vector.items()}
    rows = []
    for name, (size_, repeats) in NAIVE.items():
        rounds = max(1, plan.products if size_ == 1 else plan.products // 10)
        each = naive.seconds_of_product(size_, direction, rounds=rounds, seed=plan.seed)
        rows.append({"way": name, "product_s": each, "timed_on": rounds, "solve_s": each * repeats * PAPER_STEPS})
    return rows


def _quiet(function: Any) -> Any:
    """Run without warnings of a solve that did not converge: its residual is in the table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fastif.ConvergenceWarning)
        return function()


def table(result: dict[str, Any]) -> str:
    """Return the figures as markdown."""
    rows = []
    for row in result["rows"]:
        took = seconds(row["solve_s"]) + (" (extrapolated)" if row["extrapolated"] else "")
        steps = "-" if row["iterations"] is None else f"{row['iterations']:,}"
        residual = "failed: " + row["failed"] if row["failed"] else number(row["residual"], 2)
        figures = [seconds(row["prepare_s"]), took, seconds(row["s_for_each"]), steps, residual]
        rows.append([row["solver"], f"{row['queries']:,}", *figures])
    for row in result["naive"]:
        took = f"{seconds(row['solve_s'])} (extrapolated)"
        rows.append([f"naive, {row['way']}", "1", "-", took, seconds(row["solve_s"]), f"{PAPER_STEPS:,}", "-"])
    columns = ["solver", "queries", "prepare, once", "solve", "a query", "iterations", "residual"]
    timed = "; ".join(f"{row['way']}: {seconds(row['product_s'])} a product" for row in result["naive"])
    note = (
        f"Automatic: {result['chosen']}; damping {result['damping']:.3g}; peak memory {size(result['peak_bytes'])}. "
        f"Naive products go through the whole model ({timed}) and are timed on a few in the same run; LiSSA takes "
        f"{PAPER_STEPS:,} steps for each of T repeats."
    )
    return markdown(columns, rows) + "\n\n" + note
