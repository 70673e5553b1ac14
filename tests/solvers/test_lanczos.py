"""Lanczos: exact at full rank, the promised formula below it."""

import pytest
import torch
from torch import nn

import fastif
from fastif import vectors
from fastif.curvature import CurvatureOperator
from fastif.errors import ConfigurationError
from fastif.solvers.lanczos import Lanczos
from tests.problems import (
    CORE_NAMES,
    CURVATURES,
    as_block,
    gradients,
    matrix,
    operator_of,
    relative_error,
    safe_damping,
)


@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize("name", CORE_NAMES)
def test_full_rank_equals_the_dense_solve(name: str, curvature: str) -> None:
    operator = operator_of(name, curvature)
    damping = safe_damping(name, curvature)
    rows = gradients(name, "queries")
    solution = Lanczos(rank=operator.size, tolerance=1e-9).prepare(operator).solve(as_block(rows, operator), damping)
    dense = matrix(name, curvature) + damping * torch.eye(operator.size, dtype=torch.float64)
    assert relative_error(vectors.flatten(solution.value), torch.linalg.solve(dense, rows.T).T) < 1e-6
    assert solution.residual is not None
    assert solution.residual.max() < 1e-6


@pytest.mark.parametrize("rank", [1, 4, 12])
def test_low_rank_keeps_the_strongest_and_never_truncates_the_inverse(rank: int) -> None:
    name, damping = "mlp_dropout", 0.05
    operator = operator_of(name)
    rows = gradients(name, "queries")
    prepared = Lanczos(rank=rank, tolerance=1e-9).prepare(operator)
    solution = prepared.solve(as_block(rows, operator), damping)
    values, basis = torch.linalg.eigh(matrix(name, "gauss-newton"))
    values, basis = values[-rank:], basis[:, -rank:]
    inside = rows @ basis
    expected = (inside / (values + damping)) @ basis.T + (rows - inside @ basis.T) / damping
    assert relative_error(vectors.flatten(solution.value), expected) < 1e-6
    dense = matrix(name, "gauss-newton") + damping * torch.eye(operator.size, dtype=torch.float64)
    true = (expected @ dense - rows).norm(dim=1) / rows.norm(dim=1)
    torch.testing.assert_close(solution.residual, true, rtol=1e-5, atol=1e-9)


def test_an_eigenvalue_that_occurs_several_times_is_found_as_often() -> None:
    module = nn.Linear(6, 1, bias=False).double()
    x = torch.diag(torch.tensor([3.0, 3.0, 3.0, 1.0, 1.0, 0.0], dtype=torch.float64))
    operator = CurvatureOperator(
        fastif.TorchModel(module, loss="mse_loss"), fastif.Examples((x, torch.zeros(6, dtype=torch.float64)))
    )
    system = Lanczos(rank=5).prepare(operator).system
    torch.testing.assert_close(system.values, torch.tensor([3.0, 3.0, 3.0, 1 / 3, 1 / 3], dtype=torch.float64))


def test_knobs_are_checked() -> None:
    with pytest.raises(ConfigurationError, match="rank"):
        Lanczos(rank=0)
    with pytest.raises(ConfigurationError, match="tolerance"):
        Lanczos(tolerance=2.0)
