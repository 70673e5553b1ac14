"""Eigenvectors from a few passes: those of the dense matrix where the spectrum falls, and always below it."""

import pytest
import torch

import fastif
from fastif.solvers.auto import Auto
from fastif.solvers.subspace import Subspace
from tests.problems import matrix, operator_of, relative_error


def test_strong_eigenvalues_are_found_and_the_small_matrix_is_that_of_h() -> None:
    true = torch.linalg.eigvalsh(matrix("mlp_dropout", "gauss-newton")).flip(0)
    system = Subspace(rank=24, passes=6).prepare(operator_of("mlp_dropout")).system
    found = system.values.flip(0)
    assert relative_error(found[:8], true[:8]) < 0.02
    assert (found <= true[:24] * (1 + 1e-9)).all()
    image = matrix("mlp_dropout", "gauss-newton") @ system.basis
    torch.testing.assert_close(system.basis.T @ image, torch.diag(system.values), atol=1e-8, rtol=0)
    torch.testing.assert_close(system.basis.T @ system.basis, torch.eye(24).double(), atol=1e-8, rtol=0)


def test_all_of_space_is_exact() -> None:
    operator = operator_of("logistic_regression", weight_decay=0.1)
    seen = Subspace(rank=10_000, passes=2).prepare(operator).system.values
    true = torch.linalg.eigvalsh(matrix("logistic_regression", "gauss-newton")) + 0.1
    assert relative_error(seen, true) < 1e-9


def test_knobs() -> None:
    for wrong in ({"rank": 0}, {"passes": 1}):
        with pytest.raises(fastif.FastifError, match="must be at least"):
            Subspace(**wrong)


def test_auto_takes_it_for_eigenvectors_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastif.solvers.auto.EXACT_SIDE", 0)
    operator = operator_of("mlp_dropout")
    assert "eigenvectors by 3 passes" in Auto(eigenvectors=True).prepare(operator).description
    assert "Woodbury" in Auto().prepare(operator).description
