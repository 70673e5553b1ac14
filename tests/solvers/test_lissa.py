"""LiSSA: near the dense solve, honest about its noise, loud when it diverges; and the paper's own iteration."""

import gc
from typing import Any

import pytest
import torch
from scipy.stats import t as student

import fastif
from fastif import vectors
from fastif.curvature import CurvatureOperator
from fastif.errors import ConfigurationError, ConvergenceError, SingularMatrixError
from fastif.solvers.lissa import LiSSA, largest_example_norm
from fastif.solvers.paper_lissa import PreparedPaperLiSSA
from tests import oracles
from tests.problems import CURVATURES, as_block, case, gradients, matrix, operator_of, relative_error, safe_damping


def dense_solution(name: str, curvature: str, damping: float) -> torch.Tensor:
    matrix_ = matrix(name, curvature)
    return torch.linalg.solve(matrix_ + damping * torch.eye(len(matrix_), dtype=torch.float64), rows(name).T).T


def rows(name: str) -> torch.Tensor:
    return gradients(name, "queries")


# repeats, and the least damping over the top eigenvalue: a larger model is damped more, so that it needs fewer steps
SETTINGS = {
    "logistic_regression": (400, 0.0),
    "mlp_dropout": (400, 0.0),
    "shared_parameter": (400, 0.0),
    "cnn_batchnorm": (100, 1 / 6),
    "transformer": (100, 1 / 6),
    "lstm": (400, 1 / 3),
}


@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name == "lstm" else []) for name in SETTINGS]
)
def test_the_mean_of_many_repeats_is_within_two_per_cent(name: str, curvature: str) -> None:
    operator = operator_of(name, curvature)
    repeats, share = SETTINGS[name]
    top = float(torch.linalg.eigvalsh(matrix(name, curvature))[-1])
    damping = max(4 * safe_damping(name, curvature), share * top)
    knobs = LiSSA(repeats=repeats, batch_size=24, tolerance=0.005)
    solution = knobs.prepare(operator).solve(as_block(rows(name), operator), damping)
    expected = dense_solution(name, curvature, damping)
    assert relative_error(vectors.flatten(solution.value), expected) < 0.02
    assert relative_error(rows(name) / damping, expected) > 0.2  # more than damping alone
    assert solution.converged.all()
    assert solution.standard_error is not None
    assert solution.standard_error.max() < 0.015


def expected_iterate(name: str, damping: float, scale: float, depth: int) -> torch.Tensor:
    """The recursion with the whole matrix: the mean of the random one, as draws are independent."""
    curved = matrix(name, "gauss-newton") + damping * torch.eye(len(matrix(name, "gauss-newton")), dtype=torch.float64)
    state = torch.zeros_like(rows(name))
    for _ in range(depth):
        state = state + (rows(name) - state @ curved) / scale
    return state


def test_the_standard_error_covers_the_sampling_error() -> None:
    """200 seeds with 8 repeats each; 95 % intervals for the score of one training point."""
    name, damping, depth, repeats = "logistic_regression", 0.2, 8, 8
    operator = operator_of(name)
    block, target = as_block(rows(name)[:1], operator), gradients(name, "train")[3]
    true = float(expected_iterate(name, damping, 2.0, depth)[0] @ target)
    means, covered = set(), 0
    for seed in range(200):
        knobs = LiSSA(repeats=repeats, batch_size=2, depth=depth, scale=2.0, seed=seed)
        solution = knobs.prepare(operator).solve(block, damping)
        assert solution.samples is not None
        scores = vectors.flatten(solution.samples) @ target
        error = float(scores.std()) / repeats**0.5
        covered += abs(float(scores.mean()) - true) <= student.ppf(0.975, repeats - 1) * error
        means.add(float(scores.mean()))
    assert len(means) == 200
    assert 0.90 <= covered / 200 <= 0.98


def test_the_reported_standard_error_is_that_of_the_mean() -> None:
    operator = operator_of("logistic_regression")
    block = as_block(rows("logistic_regression"), operator)
    many = [LiSSA(repeats=8, batch_size=2, depth=20, scale=2.0, seed=seed).prepare(operator) for seed in range(40)]
    solutions = [prepared.solve(block, 0.2) for prepared in many]
    means = torch.stack([vectors.flatten(solution.value) for solution in solutions])
    spread = means.var(dim=0).sum(dim=1).sqrt() / means.mean(dim=0).norm(dim=1)
    reported = torch.stack([s.standard_error for s in solutions if s.standard_error is not None]).square().mean(dim=0)
    torch.testing.assert_close(reported.sqrt(), spread, rtol=0.25, atol=0)


def test_draws_depend_on_the_repeat_alone() -> None:
    operator = operator_of("mlp_dropout")
    block = as_block(rows("mlp_dropout"), operator)

    def samples(repeats: int, seed: int = 0) -> torch.Tensor:
        solution = LiSSA(depth=5, repeats=repeats, batch_size=3, seed=seed).prepare(operator).solve(block, 0.5)
        assert solution.samples is not None
        return vectors.flatten(solution.samples)

    assert torch.equal(samples(2), samples(2))
    torch.testing.assert_close(samples(4)[:8], samples(2))
    assert relative_error(samples(2, seed=1), samples(2)) > 1e-3


def test_the_norm_of_the_largest_example() -> None:
    it = case("mlp_dropout")
    alone = [tuple(column[i : i + 1] for column in it.train) for i in range(24)]
    true = max(float(torch.linalg.eigvalsh(oracles.dense_ggn(it.module, it.names, it.loss, one))[-1]) for one in alone)
    assert largest_example_norm(operator_of("mlp_dropout"), rounds=20) == pytest.approx(true, rel=0.02)


def test_divergence_names_a_scale_that_works() -> None:
    operator = operator_of("mlp_dropout")
    block = as_block(rows("mlp_dropout"), operator)
    knobs: dict[str, Any] = {"depth": 400, "batch_size": 2, "repeats": 2}
    with pytest.raises(ConvergenceError, match="Use scale of at least") as caught:
        LiSSA(scale=0.2, **knobs).prepare(operator).solve(block, 0.03)
    needed = float(str(caught.value).split("at least ")[1].split(", or")[0])
    assert LiSSA(scale=needed, **knobs).prepare(operator).solve(block, 0.03).iterations == 400


def test_zero_damping_and_knobs_that_cannot_work() -> None:
    operator = operator_of("mlp_dropout")
    with pytest.raises(SingularMatrixError, match="a number such as"):
        LiSSA().prepare(operator).solve(as_block(rows("mlp_dropout"), operator), 0.0)
    with pytest.raises(ConfigurationError, match="steps at this damping"):
        LiSSA().prepare(operator).solve(as_block(rows("mlp_dropout"), operator), 1e-9)
    for knobs in ({"depth": 0}, {"repeats": 0}, {"batch_size": 0}, {"scale": -1.0}, {"tolerance": 0.0}):
        with pytest.raises(ConfigurationError):
            LiSSA(**knobs)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["logistic_regression", "mlp_dropout"])
def test_the_papers_iteration_converges_to_damp_times_scale(name: str) -> None:
    operator = operator_of(name)
    damp, scale = 0.02, 10.0
    knobs = LiSSA.paper(damp=damp, scale=scale, depth=600, batch_size=24, repeats=1)
    solution = knobs.prepare(operator).solve(as_block(rows(name), operator), damping=123.0)
    expected = dense_solution(name, "gauss-newton", damp * scale)
    assert relative_error(vectors.flatten(solution.value), expected) < 1e-4
    assert solution.residual is not None
    assert solution.residual.max() < 1e-4


def test_the_papers_iteration_to_the_letter() -> None:
    """Written out with dense matrices of the same batches: three steps of h = v + (1 - damp) h - H_B h / scale."""
    name = "mlp_dropout"
    it, operator = case(name), operator_of(name)
    prepared = LiSSA.paper(damp=0.1, scale=7.0, depth=3, batch_size=2, repeats=2, seed=5).prepare(operator)
    solution = prepared.solve(as_block(rows(name), operator), 0.0)
    runs = []
    for repeat in range(2):
        state = rows(name)
        for ids in prepared._positions(repeat):
            part = oracles.dense_ggn(it.module, it.names, it.loss, tuple(column[ids] for column in it.train))
            state = rows(name) + (1 - 0.1) * state - state @ part / 7.0
        runs.append(state / 7.0)
    assert relative_error(vectors.flatten(solution.value), torch.stack(runs).mean(dim=0)) < 1e-9


@pytest.mark.parametrize("batch_size", [1, 5])
@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
def test_the_papers_iteration_is_the_same_in_the_space_of_rows(batch_size: int, weight_decay: float) -> None:
    plain = operator_of("transformer")
    operator = CurvatureOperator(plain.model, plain.data, weight_decay=weight_decay)
    block = as_block(gradients("transformer", "queries"), operator)
    knobs = LiSSA.paper(damp=0.02, scale=9.0, depth=60, batch_size=batch_size, repeats=3, seed=4)
    prepared = knobs.prepare(operator)
    one, two = prepared._in_rows(block), prepared._through_the_model(block)
    assert relative_error(vectors.flatten(one), vectors.flatten(two)) < 1e-12
    again = prepared._through_the_model(vectors.scale(block, 2.0))  # what was made for the first run serves the second
    assert relative_error(vectors.flatten(again), 2 * vectors.flatten(two)) < 1e-12


def test_a_prepared_solver_takes_the_draws_of_other_repeats() -> None:
    operator = operator_of("transformer")
    block = as_block(gradients("transformer", "queries"), operator)
    knobs = LiSSA.paper(damp=0.02, scale=9.0, depth=20, batch_size=2, repeats=2, seed=4)
    fresh = PreparedPaperLiSSA(knobs, operator, runs=[2, 3])
    expected = vectors.flatten(fresh._through_the_model(block))
    prepared = knobs.prepare(operator)
    for iterate in (prepared._in_rows, prepared._through_the_model):
        prepared.draw_as([0, 1])
        assert relative_error(vectors.flatten(iterate(block)), expected) > 1e-3
        prepared.draw_as([2, 3])
        assert relative_error(vectors.flatten(iterate(block)), expected) < 1e-12
    with pytest.raises(ValueError, match="there are 2 runs, and draws for 3"):
        prepared.draw_as([0, 1, 2])


def test_draws_of_its_own_are_not_left_to_helpers_who_know_nothing_of_them() -> None:
    operator = operator_of("transformer")
    block = as_block(gradients("transformer", "queries"), operator)
    prepared = LiSSA.paper(damp=0.02, scale=9.0, depth=5, batch_size=2, repeats=2, seed=4).unjudged().prepare(operator)
    prepared.draw_as([2, 3])
    expected = vectors.flatten(prepared.solve(block, 0.0).value)
    operator.helpers = object()  # type: ignore[assignment] # who can do nothing at all
    assert torch.equal(vectors.flatten(prepared.solve(block, 0.0).value), expected)
    prepared.draw_as([0, 1])
    with pytest.raises(AttributeError, match="repeats"):
        prepared.solve(block, 0.0)


def test_a_large_model_takes_the_papers_iteration_to_the_space_of_rows() -> None:
    x, y = torch.randn(300, 20), torch.randint(0, 3, (300,))
    module = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.Tanh(), torch.nn.Linear(64, 3))
    operator = CurvatureOperator(fastif.TorchModel(module, "cross_entropy"), fastif.Examples((x, y)))
    assert LiSSA.paper(depth=100, batch_size=1).prepare(operator)._rows_are_kept
    hessian = CurvatureOperator(operator.model, operator.data, kind="hessian")
    assert not LiSSA.paper(depth=100, batch_size=1).prepare(hessian)._rows_are_kept


def test_the_papers_batches_are_drawn_without_replacement() -> None:
    positions = LiSSA.paper(depth=24, batch_size=2).prepare(operator_of("mlp_dropout"))._positions(0)
    for epoch in (positions[:12], positions[12:]):
        assert torch.equal(epoch.flatten().sort().values, torch.arange(24))
    assert not torch.equal(positions[:12], positions[12:])


def test_the_memory_of_2000_steps_is_flat() -> None:
    operator = operator_of("logistic_regression")
    block = as_block(rows("logistic_regression"), operator)

    def tensors_left(depth: int) -> int:
        solution = LiSSA.paper(damp=0.01, scale=50.0, depth=depth, repeats=1).prepare(operator).solve(block, 0.0)
        gc.collect()
        count = sum(1 for each in gc.get_objects() if issubclass(type(each), torch.Tensor))
        assert solution.iterations == depth
        return count

    tensors_left(5)
    assert tensors_left(2000) <= tensors_left(5) + 5


def test_lissa_answers_an_explainer() -> None:
    it = case("mlp_dropout")
    model = fastif.TorchModel(it.module, loss=it.loss)
    explainer = fastif.Explainer(
        model, it.train, solver=LiSSA(repeats=500, batch_size=24, tolerance=0.005), damping=0.2
    )
    expected = fastif.Explainer(model, it.train, damping=0.2).scores(it.queries).values
    scores = explainer.scores(it.queries)
    assert relative_error(scores.values, expected) < 0.03
    assert "LiSSA" in scores.provenance["method"]


def test_the_papers_damping_is_reported() -> None:
    it = case("mlp_dropout")
    paper = LiSSA.paper(damp=0.01, scale=50.0, depth=5)
    explainer = fastif.Explainer(fastif.TorchModel(it.module, loss=it.loss), it.train, solver=paper)
    assert explainer.damping.value == pytest.approx(0.5)
    assert "set by the solver" in explainer.summary()
    assert len(explainer.scores(it.queries).provenance["residuals"]) == 4


def test_an_explanation_carries_the_standard_error_of_each_score() -> None:
    it = case("mlp_dropout")
    model = fastif.TorchModel(it.module, loss=it.loss)
    explainer = fastif.Explainer(model, it.train, solver=LiSSA(repeats=40, batch_size=4, depth=60), damping=0.5)
    exact = fastif.Explainer(model, it.train, damping=0.5).scores(it.queries).values
    listed = [
        (row, item)
        for row, query in enumerate(explainer.explain(it.queries))
        for item in (*query.helpful, *query.harmful)
    ]
    assert all(item.error is not None and item.error > 0 for _, item in listed)
    within = [abs(item.score - exact[row, item.index]) < 4 * (item.error or 0) for row, item in listed]
    assert sum(within) > 0.9 * len(within)
    assert " ± " in str(explainer.explain(it.queries))
    assert fastif.Explainer(model, it.train).explain(it.queries)[0].helpful[0].error is None


def test_a_solution_that_is_not_judged_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = operator_of("mlp_dropout")
    block = as_block(rows("mlp_dropout"), operator)
    knobs = LiSSA.paper(damp=0.01, scale=50.0, depth=5)
    judged = knobs.prepare(operator).solve(block, 0.0)
    monkeypatch.setattr(type(operator), "__call__", None)  # a product over the data is what a residual takes
    plain = knobs.unjudged().prepare(operator).solve(block, 0.0)
    assert all(torch.equal(plain.value[name], tensor) for name, tensor in judged.value.items())
    assert plain.residual is None
    assert plain.residuals() == [None] * len(rows("mlp_dropout"))
    assert not plain.converged.any()  # nobody looked
