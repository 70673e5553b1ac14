"""Self-influence from eigenvectors: exact with all of them, and a true bound with some."""

import pytest
import torch

import fastif
from fastif.self_influence import self_influence
from fastif.solvers.lanczos import strongest_eigenvectors
from tests import oracles
from tests.problems import CASE_NAMES, case, gradients, matrix, operator_of, relative_error


def expected(name: str, damping: float) -> torch.Tensor:
    return oracles.self_influence(matrix(name, "gauss-newton"), gradients(name, "train"), damping)


@pytest.mark.parametrize("name", CASE_NAMES)
def test_all_eigenvectors_give_the_oracle(name: str) -> None:
    operator = operator_of(name)
    data = fastif.Examples(case(name).train)
    for form in ("primal", "dual"):
        system = fastif.Exact(form).prepare(operator)
        values, errors = self_influence(operator.model, data, system, 0.03, batch_size=7)
        assert relative_error(values, expected(name, 0.03)) < 1e-6
        assert errors.max() < 1e-6 * values.max()


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("rank", [1, 5, 20])
@pytest.mark.parametrize("name", ["mlp_dropout", "cnn_batchnorm"])
def test_the_error_of_the_dropped_tail_is_a_bound(name: str, rank: int, weight_decay: float) -> None:
    operator = operator_of(name, weight_decay=weight_decay)
    system = strongest_eigenvectors(operator, rank, 1e-8, seed=0)
    assert system.basis.shape[1] == rank
    values, errors = self_influence(operator.model, fastif.Examples(case(name).train), system, 0.03)
    true = expected(name, 0.03 + weight_decay)
    rounding = 1e-6 * true.max()
    assert (values >= true - rounding).all()
    assert (values - errors <= true + rounding).all()
    assert errors.max() > 0


def test_more_eigenvectors_leave_less_error() -> None:
    operator = operator_of("mlp_dropout")
    data = fastif.Examples(case("mlp_dropout").train)
    of = [
        self_influence(operator.model, data, strongest_eigenvectors(operator, rank, 1e-8, seed=0), 0.03)[1].sum()
        for rank in (2, 8, 32)
    ]
    assert of[0] > of[1] > of[2]


def test_an_explainer_takes_the_eigenvectors_of_its_solver() -> None:
    it = case("mlp_dropout")
    model = fastif.TorchModel(it.module, loss=it.loss)
    true = expected("mlp_dropout", 0.03)
    solvers = (fastif.Exact(), fastif.Lanczos(rank=60, tolerance=1e-8), fastif.ConjugateGradient(), fastif.LiSSA())
    for solver in solvers:
        values, errors = fastif.Explainer(model, it.train, solver=solver, damping=0.03).self_influence_with_error()
        assert (values >= true * (1 - 1e-6)).all()
        assert (values - errors <= true * (1 + 1e-6)).all()
        assert relative_error(values, true) < 1e-3


def test_without_curvature_it_is_the_squared_norm_of_the_gradient() -> None:
    it = case("mlp_dropout")
    explainer = fastif.Explainer(fastif.TorchModel(it.module, loss=it.loss), it.train, solver=fastif.Identity())
    torch.testing.assert_close(explainer.self_influence(), gradients("mlp_dropout", "train").square().sum(dim=1))
