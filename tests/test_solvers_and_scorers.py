"""Every solver with every way of scoring, against the dense oracle."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pytest
import torch
from torch import Tensor

import fastif
from fastif import vectors
from fastif.scoring import low_rank, scan
from fastif.vectors import Block
from tests import oracles
from tests.problems import as_block, case, gradients, matrix, model_of, operator_of, relative_error

SOLVERS: dict[str, Any] = {
    "primal": fastif.Exact(form="primal"),
    "dual": fastif.Exact(form="dual"),
    "cg": fastif.ConjugateGradient(tolerance=1e-9),
    "nystrom cg": fastif.ConjugateGradient(tolerance=1e-9, preconditioner_rank=8),
    "lanczos": fastif.Lanczos(rank=500, tolerance=1e-9),  # above the size of every case, so that none is left out
}
SCORERS: dict[str, Callable[..., Tensor]] = {
    "jvp": partial(scan, method="jvp"),
    "ghost": partial(scan, method="ghost"),
    "gemm": partial(scan, method="gemm"),
    "auto": partial(scan, method="auto"),
    "low rank": partial(low_rank.scan, rank=500),
}
NAMES = ("mlp_dropout", "cnn_batchnorm", "transformer", "shared_parameter", "multi_label", "temperature")
DAMPING = 0.03
LISSA_DAMPING = 0.3


@cache
def solution(name: str, solver: str) -> Block:
    operator = operator_of(name)
    solved = SOLVERS[solver].prepare(operator).solve(as_block(gradients(name, "queries"), operator), DAMPING)
    assert solved.converged.all()
    value: Block = solved.value
    return value


@cache
def expected(name: str, damping: float) -> Tensor:
    return oracles.influence(
        gradients(name, "queries"), matrix(name, "gauss-newton"), gradients(name, "train"), damping
    )


def scored(name: str, scorer: str, block: Block) -> Tensor:
    return -SCORERS[scorer](model_of(case(name)), fastif.Examples(case(name).train), block, batch_size=13)


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", NAMES)
def test_scores_equal_the_dense_oracle(name: str, solver: str, scorer: str) -> None:
    assert relative_error(scored(name, scorer, solution(name, solver)), expected(name, DAMPING)) < 1e-6


@cache
def drawn() -> Block:
    """LiSSA's answer, with at most 0.5 % missing after its last step and 2 % of noise."""
    name = "mlp_dropout"
    operator = operator_of(name)
    solver = fastif.LiSSA(repeats=500, batch_size=24, tolerance=0.005)
    solved = solver.prepare(operator).solve(as_block(gradients(name, "queries"), operator), LISSA_DAMPING)
    assert solved.converged.all()
    return solved.value


@pytest.mark.parametrize("scorer", SCORERS)
def test_lissa_is_within_its_own_tolerances(scorer: str) -> None:
    name = "mlp_dropout"
    dense = matrix(name, "gauss-newton")
    damped = dense + LISSA_DAMPING * torch.eye(len(dense), dtype=torch.float64)
    exact = torch.linalg.solve(damped, gradients(name, "queries").T).T
    seen = vectors.flatten(drawn())
    assert ((seen - exact).norm(dim=1) / exact.norm(dim=1)).max() < 0.02
    scores = scored(name, scorer, drawn())
    assert relative_error(scores, -seen @ gradients(name, "train").T) < 1e-6
    # an error of 2 % in s is one of at most 2 % of |s| |g| in a score
    most = 0.02 * exact.norm(dim=1)[:, None] * gradients(name, "train").norm(dim=1)
    assert ((scores - expected(name, LISSA_DAMPING)).abs() <= most).all()
