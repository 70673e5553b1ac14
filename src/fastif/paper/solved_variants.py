r"""What the paper left out of Figure 3 (b): what a solve makes of a gradient, at its damping and at others.

Training points are ranked by $s^\top \nabla\ell$, so that the direction of a solution s is all that counts: here are
its cosines with the gradient that it was solved for and with the paper's solution, each solved to the end. A cosine of
one with the gradient is no curvature at all. Knows variants and solutions; candidates have no part in a solve.
"""

from functools import partial
from typing import Any

import fastif
from fastif import vectors
from fastif.batch import Batch
from fastif.data import Examples
from fastif.measuring.engine import gradients_for, operator_of, solver_of, working
from fastif.measuring.words import markdown
from fastif.paper.context import Context
from fastif.paper.models import TaskModel
from fastif.paper.unfinished import finished
from fastif.paper.variants import Variant, damping_in_words
from fastif.solvers import ConjugateGradient, PreparedSolver
from fastif.vectors import Block

Row = dict[str, Any]
GRADIENT, PAPERS = "the gradient itself, no solve", "the paper's"


def solve_variants(
    context: Context, model: TaskModel, data: Examples, points: Batch, *, gradients: Block, papers: Block
) -> tuple[list[Row], list[str]]:
    """Return a row for each way to solve, and a note of those that are not finished.

    A row has the cosines of a solution with the gradient and with the paper's solution, by point.

    Args:
        context: of the experiment.
        model: whose gradients they are.
        data: that H is the mean over.
        points: that are solved for, placed.
        gradients: of their losses.
        papers: their solutions at the paper's damping.
    """
    wanted = context.settings.hvp
    if not wanted.variants:
        return [], []
    solver = f"hessian, conjugate gradients on {len(data):,} examples"
    rows = [
        _row(GRADIENT, None, gradients, gradients, papers, how="-"),
        _row(PAPERS, wanted.solver.damping, papers, gradients, papers, how=solver),
    ]

    def solved(variant: Variant) -> Row:
        options = {**variant.options(wanted.solver, context.seed), "precision": "float32"}
        explainer = context.explainer(model, train=data, **options)
        with working(explainer):
            solver, damping = _to_the_end(explainer, variant, wanted.solver.damping)
            solution = solver.solve(gradients_for(explainer, points), damping).value
        how = f"{operator_of(explainer).kind}, {solver.description}"
        return _row(variant.name, damping, solution, gradients, papers, how=how)

    made, missing = finished(
        wanted.variants,
        lambda variant: context.part(f"solved, {variant.name}", partial(solved, variant)),
        what="solve",
    )
    return [*rows, *made.values()], missing


def _to_the_end(explainer: fastif.Explainer, variant: Variant, damping: float) -> tuple[PreparedSolver, float]:
    """Return a solver that goes to the end, and the damping: in place of the paper's solver conjugate gradients."""
    if variant.is_by_papers_solver:
        return ConjugateGradient().prepare(operator_of(explainer)), damping
    assert explainer.damping.value is not None
    return solver_of(explainer), explainer.damping.value


def _row(name: str, damping: float | None, solution: Block, gradients: Block, papers: Block, *, how: str) -> Row:
    return {
        "way": name,
        "solver": how,
        "damping": damping,
        "cosine_with_gradient": _cosines(solution, gradients),
        "cosine_with_papers": _cosines(solution, papers),
    }


def _cosines(one: Block, other: Block) -> list[float]:
    found: list[float] = (vectors.dot(one, other) / (vectors.norm(one) * vectors.norm(other))).tolist()
    return found


def table(rows: list[Row]) -> list[str]:
    """Return the cosines, mean and range over points; nothing of results without them."""
    if not rows:
        return []
    lines = [
        [
            row["way"],
            row["solver"],
            damping_in_words(row["damping"]),
            *(_spread(row[f"cosine_with_{other}"]) for other in ("gradient", "papers")),
        ]
        for row in rows
    ]
    return [
        "What the paper left out: solutions to the end by other ways, mean (and range) over the points. What is ranked "
        "depends on the direction of a solution alone; one that is the gradient's has no curvature in it.",
        markdown(["solution", "by", "damping", "cosine with the gradient", "cosine with the paper's solution"], lines),
    ]


def _spread(values: list[float]) -> str:
    return f"{sum(values) / len(values):.4f} ({min(values):.4f} to {max(values):.4f})"
