"""What every solver must do, and what each promises of its own."""

import gc
import warnings
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fastif
from fastif import vectors
from fastif.curvature import CurvatureOperator
from fastif.errors import ConfigurationError, ConvergenceError, ConvergenceWarning
from fastif.solvers import Auto, Solution, choose_solver, exact
from fastif.solvers.auto import LEAST_SUBSAMPLE, affordable_examples
from fastif.solvers.demand import MOST_ROWS
from fastif.solvers.nystrom import Nystrom
from tests.problems import (
    CASE_NAMES,
    CORE_NAMES,
    CURVATURES,
    as_block,
    gradients,
    matrix,
    operator_of,
    relative_error,
    safe_damping,
)

CURVED: dict[str, Any] = {
    "primal": fastif.Exact(form="primal"),
    "dual": fastif.Exact(form="dual"),
    "cg": fastif.ConjugateGradient(tolerance=1e-10),
    "nystrom cg": fastif.ConjugateGradient(tolerance=1e-10, preconditioner_rank=8),
    "woodbury": fastif.Woodbury(),
}
DRAWN: dict[str, Any] = {
    "lissa": fastif.LiSSA(depth=3, repeats=2, scale=50.0),
    "paper": fastif.LiSSA.paper(depth=3, scale=50.0),
}
NAME = "transformer"


def solve(solver: Any, rows: Tensor, damping: float, operator: CurvatureOperator | None = None) -> Solution:
    operator = operator or operator_of(NAME)
    solution: Solution = solver.prepare(operator).solve(as_block(rows, operator), damping)
    return solution


def right_sides() -> Tensor:
    return gradients(NAME, "queries")


@pytest.mark.parametrize("solver", CURVED.values(), ids=CURVED)
@pytest.mark.parametrize("damping", [1e-3, 0.1, 10.0])
def test_solutions_equal_the_dense_solve(solver: Any, damping: float) -> None:
    dense = matrix(NAME, "gauss-newton") + damping * torch.eye(146, dtype=torch.float64)
    solution = solve(solver, right_sides(), damping)
    expected = torch.linalg.solve(dense, right_sides().T).T
    assert relative_error(vectors.flatten(solution.value), expected) < 1e-6
    assert solution.converged.all()
    assert solution.residual is not None
    assert solution.residual.max() < 1e-9


@pytest.mark.parametrize("solver", CURVED.values(), ids=CURVED)
def test_the_residual_is_a_true_one(solver: Any) -> None:
    dense = matrix(NAME, "gauss-newton") + 0.01 * torch.eye(146, dtype=torch.float64)
    solution = solve(solver, right_sides(), 0.01)
    true = (vectors.flatten(solution.value) @ dense - right_sides()).norm(dim=1) / right_sides().norm(dim=1)
    assert solution.residual is not None
    torch.testing.assert_close(solution.residual, true, rtol=0.05, atol=1e-13)
    assert solution.residual.max() < 1e-9


@pytest.mark.parametrize("solver", [*CURVED.values(), fastif.Identity()], ids=[*CURVED, "identity"])
def test_a_block_gives_what_its_vectors_give_alone(solver: Any) -> None:
    together = vectors.flatten(solve(solver, right_sides(), 0.03).value)
    alone = torch.cat([vectors.flatten(solve(solver, row[None], 0.03).value) for row in right_sides()])
    assert relative_error(together, alone) < 1e-8


@pytest.mark.parametrize("solver", [*CURVED.values(), fastif.Identity()], ids=[*CURVED, "identity"])
def test_the_solution_is_linear_and_zero_gives_zero(solver: Any) -> None:
    first, second = right_sides()[:2]
    rows = torch.stack([first, second, 2 * first - 3 * second, torch.zeros_like(first)])
    solution = vectors.flatten(solve(solver, rows, 0.03).value)
    assert relative_error(solution[2], 2 * solution[0] - 3 * solution[1]) < 1e-6
    assert not solution[3].any()


@pytest.mark.parametrize("solver", CURVED.values(), ids=CURVED)
def test_preparing_once_serves_every_damping(solver: Any) -> None:
    operator = operator_of(NAME)
    prepared = solver.prepare(operator)
    for damping in (0.02, 2.0):
        again = vectors.flatten(prepared.solve(as_block(right_sides(), operator), damping).value)
        assert relative_error(again, vectors.flatten(solve(solver, right_sides(), damping).value)) < 1e-7


@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize("name", CORE_NAMES)
def test_a_sweep_of_dampings_equals_one_solve_each(name: str, curvature: str) -> None:
    operator = operator_of(name, curvature)
    base = safe_damping(name, curvature)
    dampings = [base * factor for factor in (3.0, 1.0, 100.0, 10.0, 1e4)]
    rows = gradients(name, "queries")
    prepared = fastif.ConjugateGradient(tolerance=1e-9).prepare(operator)
    solutions = prepared.sweep(as_block(rows, operator), dampings)
    for damping, solution in zip(dampings, solutions, strict=True):
        dense = matrix(name, curvature) + damping * torch.eye(operator.size, dtype=torch.float64)
        assert solution.converged.all()
        assert relative_error(vectors.flatten(solution.value), torch.linalg.solve(dense, rows.T).T) < 1e-6


def test_a_sweep_costs_no_more_products_than_its_hardest_solve() -> None:
    operator = operator_of(NAME)
    block = as_block(right_sides(), operator)
    prepared = fastif.ConjugateGradient(tolerance=1e-6).prepare(operator)
    sweep = prepared.sweep(block, [0.001, 0.01, 0.1, 1.0])
    assert sweep[0].iterations <= prepared.solve(block, 0.001).iterations + 2
    with pytest.raises(ConfigurationError, match="at least one damping"):
        prepared.sweep(block, [])


def ill_conditioned() -> tuple[CurvatureOperator, vectors.Block]:
    """Least squares with forty eigenvalues that fall by a factor of 1.6 each, as real spectra do."""
    torch.manual_seed(0)
    module = nn.Linear(40, 1, bias=False).double()
    x = torch.linalg.qr(torch.randn(60, 40, dtype=torch.float64)).Q * 60**0.5 * 1.6 ** -(torch.arange(40) ** 1.0)
    model = fastif.TorchModel(module, loss="mse_loss")
    operator = CurvatureOperator(model, fastif.Examples((x, torch.zeros(60, dtype=torch.float64))))
    return operator, vectors.random(model.parameters, 3, seed=1)


def test_a_nystrom_preconditioner_saves_iterations() -> None:
    operator, block = ill_conditioned()
    plain, sketched = (
        fastif.ConjugateGradient(preconditioner_rank=rank).prepare(operator).solve(block, 1e-4) for rank in (0, 20)
    )
    assert sketched.converged.all()
    assert sketched.iterations < 0.5 * plain.iterations


def test_a_nystrom_sketch_of_full_rank_is_the_inverse() -> None:
    operator, block = ill_conditioned()
    sketch = Nystrom.sketch(operator, rank=40, seed=0)
    applied = sketch.solve(operator(block, 0.1), 0.1)
    # P^-1 (H + damping) is a multiple of the identity
    ratio = vectors.flatten(applied) / vectors.flatten(block)
    torch.testing.assert_close(ratio, ratio[:1, :1].expand_as(ratio), rtol=1e-5, atol=0)


def test_a_sketch_of_nothing_changes_nothing() -> None:
    module = nn.Linear(3, 2)
    data = fastif.Examples((torch.zeros(9, 3), torch.zeros(9, dtype=torch.int64)))
    model = fastif.TorchModel(module, loss="cross_entropy", trainable="weight")
    block = vectors.random(model.parameters, 2, seed=0)
    sketch = Nystrom.sketch(CurvatureOperator(model, data), rank=3, seed=0)
    assert sketch.rank == 0
    assert torch.equal(vectors.flatten(sketch.solve(block, 0.1)), vectors.flatten(block))


def test_stopping_early_warns_and_says_so_in_the_result() -> None:
    operator, block = ill_conditioned()
    with pytest.warns(ConvergenceWarning, match="max_iterations"):
        solution = fastif.ConjugateGradient(max_iterations=3).prepare(operator).solve(block, 1e-6)
    assert not solution.converged.any()
    assert solution.iterations == 3


def test_vectors_that_converge_early_leave_the_block() -> None:
    operator, block = ill_conditioned()
    easy = vectors.scale(vectors.select(block, slice(0, 1)), 0.0)
    easy["weight"][0, 0, 0] = 1.0  # an eigenvector of the largest eigenvalue, up to rotation of the data
    both = vectors.join([easy, block])
    widths = []

    class Counting(CurvatureOperator):
        def __call__(self, block: vectors.Block, damping: float = 0.0) -> vectors.Block:
            widths.append(vectors.width(block))
            return super().__call__(block, damping)

    counting = Counting(operator.model, operator.data)
    solution = fastif.ConjugateGradient().prepare(counting).solve(both, 1e-3)
    assert solution.converged.all()
    assert min(widths) < 4


def test_float32_reaches_its_default_tolerance() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 5))
    data = (torch.randn(200, 20), torch.randint(0, 5, (200,)))
    model = fastif.TorchModel(module, loss="cross_entropy")
    operator = CurvatureOperator(model, fastif.Examples(data))
    prepared = fastif.ConjugateGradient().prepare(operator)
    damping = 0.005 * prepared.spectrum().top
    solution = prepared.solve(vectors.random(model.parameters, 4, seed=0), damping)
    assert solution.residual is not None
    assert 1e-7 < solution.residual.max() <= 1e-4


@pytest.mark.parametrize("solver", [fastif.ConjugateGradient(), fastif.ConjugateGradient(preconditioner_rank=8)])
def test_tiny_vectors_do_not_vanish_in_float32(solver: Any) -> None:
    """A confident query has a gradient of 1e-25, whose square is zero in float32."""
    torch.manual_seed(0)
    data = fastif.Examples((torch.randn(50, 4), torch.randint(0, 3, (50,))))
    model = fastif.TorchModel(nn.Linear(4, 3), loss="cross_entropy")
    prepared = solver.prepare(CurvatureOperator(model, data))
    block = vectors.random(model.parameters, 3, seed=0)
    sizes = torch.tensor([1.0, 1e-25, 1e15])
    expected = prepared.solve(block, 0.01)
    seen = prepared.solve(vectors.scale(block, sizes), 0.01)
    assert seen.converged.all()
    again = vectors.flatten(vectors.scale(seen.value, 1 / sizes))
    assert relative_error(again, vectors.flatten(expected.value)) < 1e-3
    swept = prepared.sweep(vectors.scale(block, sizes), [0.01])[0]
    assert relative_error(vectors.flatten(vectors.scale(swept.value, 1 / sizes)), again) < 1e-3


def test_a_subsample_changes_the_matrix_and_says_so() -> None:
    operator = operator_of(NAME)
    prepared = fastif.ConjugateGradient(subsample=10, tolerance=1e-9).prepare(operator)
    part = fastif.Exact(form="primal").prepare(operator.subsample(10, seed=0))
    block = as_block(right_sides(), operator)
    seen, expected = (vectors.flatten(each.solve(block, 0.1).value) for each in (prepared, part))
    assert relative_error(seen, expected) < 1e-6
    assert f"on 10 of {operator.examples} examples" in prepared.description


def test_a_loss_that_is_not_convex_in_the_outputs_has_a_dual_too() -> None:
    def wave(outputs: Tensor, targets: Tensor) -> Tensor:
        return torch.cos(outputs - targets[:, None]).sum(dim=1) + 0.1 * outputs.square().sum(dim=1)

    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    data = fastif.Examples((torch.randn(6, 3, dtype=torch.float64), torch.randn(6, dtype=torch.float64)))
    operator = CurvatureOperator(fastif.TorchModel(module, loss=wave), data)
    primal, dual = (fastif.Exact(form=form).prepare(operator) for form in ("primal", "dual"))
    bottom = primal.spectrum().bottom
    assert bottom < -1e-3
    block = vectors.random(operator.model.parameters, 2, seed=0)
    expected, seen = (vectors.flatten(each.solve(block, 2 * abs(bottom)).value) for each in (primal, dual))
    assert relative_error(seen, expected) < 1e-9


@pytest.mark.parametrize("name", CASE_NAMES)
def test_the_primal_matrix_is_the_same_from_rows_and_from_columns(name: str) -> None:
    operator = operator_of(name, weight_decay=0.25)
    by_rows, by_columns = exact._by_rows(operator), exact._by_columns(operator)
    assert relative_error(by_rows, by_columns) < 1e-13
    expected = matrix(name, "gauss-newton") + 0.25 * torch.eye(operator.size, dtype=torch.float64)
    assert relative_error(by_rows, expected) < 1e-13


def test_rows_make_the_primal_matrix_where_they_are_few() -> None:
    def chosen(outputs: int, curvature: str = "gauss-newton", positions: int = 1) -> bool:
        layers = [nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, outputs)]
        module = nn.Sequential(nn.Unflatten(1, (positions, 3)), *layers, nn.AvgPool2d((positions, 1)), nn.Flatten())
        data = fastif.Examples((torch.randn(6, 3 * positions), torch.zeros(6, dtype=torch.int64)))
        model = fastif.TorchModel(module, loss="cross_entropy")
        return exact.rows_are_cheaper(CurvatureOperator(model, data, kind=curvature))  # type: ignore[arg-type]

    assert chosen(13)
    assert not chosen(14)
    assert chosen(40, positions=8)
    assert not chosen(2, "hessian")


def test_numbers_that_are_not_finite_end_a_solve() -> None:
    operator, block = ill_conditioned()
    block["weight"][1, 0, 3] = float("inf")
    with warnings.catch_warnings(), pytest.raises(ConvergenceError, match="not finite"):
        fastif.ConjugateGradient().prepare(operator).solve(block, 0.1)


@pytest.mark.parametrize(
    ("knobs", "word"),
    [
        ({"tolerance": 0.0}, "tolerance"),
        ({"max_iterations": 0}, "max_iterations"),
        ({"preconditioner_rank": -1}, "preconditioner_rank"),
    ],
)
def test_knobs_are_checked_when_a_solver_is_made(knobs: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigurationError, match=word):
        fastif.ConjugateGradient(**knobs)
    with pytest.raises(ConfigurationError, match="form"):
        fastif.Exact(form="both")  # type: ignore[arg-type]


def test_requests_that_cannot_work_are_refused_before_they_start() -> None:
    with pytest.raises(ConfigurationError, match="dual"):
        fastif.Exact(form="dual").prepare(operator_of(NAME, "hessian"))
    with pytest.raises(ConfigurationError, match="gauss-newton"):
        fastif.ConjugateGradient(preconditioner_rank=3).prepare(operator_of(NAME, "hessian"))
    with pytest.raises(ConfigurationError, match="ConjugateGradient"):
        fastif.Exact(memory=1000).prepare(operator_of(NAME))


def test_the_choice_follows_the_size() -> None:
    def chosen(features: int, examples: int) -> Any:
        module = nn.Linear(features, 2)
        inputs = torch.zeros(examples, 1).expand(examples, features)
        data = fastif.Examples((inputs, torch.zeros(examples, dtype=torch.int64)))
        return choose_solver(CurvatureOperator(fastif.TorchModel(module, loss="cross_entropy"), data))

    assert chosen(10, 50) == fastif.Exact("primal")
    assert chosen(100, 50) == fastif.Exact("dual")
    assert chosen(3000, 3500) == fastif.ConjugateGradient(preconditioner_rank=100)
    assert chosen(1000, 60_000) == fastif.ConjugateGradient(preconditioner_rank=100)
    assert chosen(100_000, 3500) == fastif.ConjugateGradient(preconditioner_rank=83)  # what fits
    assert chosen(1_200_000, 3500) == fastif.ConjugateGradient(preconditioner_rank=0)


def test_the_automatic_choice_takes_a_part_of_the_data_where_a_pass_would_be_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(600, 500), torch.nn.Tanh(), torch.nn.Linear(500, 60))
    data = fastif.Examples((torch.zeros(9, 600), torch.zeros(9, dtype=torch.int64)))
    operator = CurvatureOperator(fastif.TorchModel(module, loss="cross_entropy"), data)
    assert affordable_examples(operator) is None
    data.lengths = torch.full((9,), 10**6)  # as if each were a text of a million tokens
    assert affordable_examples(operator) is None  # and yet few enough
    monkeypatch.setitem(LEAST_SUBSAMPLE, "cpu", 4)
    assert affordable_examples(operator) == 4
    assert choose_solver(operator, seed=3) == fastif.Woodbury(subsample=4, seed=3)
    monkeypatch.setitem(MOST_ROWS, "cpu", 235)
    rank = 50  # of 64 MiB; four examples have 236 rows
    assert choose_solver(operator, seed=3) == fastif.ConjugateGradient(subsample=4, preconditioner_rank=rank, seed=3)


def test_the_automatic_choice_keeps_to_the_most_examples_that_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = operator_of("mlp_dropout", "gauss-newton")
    few = operator.subsample(10, seed=3)
    right = {name: torch.randn(2, *tensor.shape).to(tensor) for name, tensor in operator.model.parameters.items()}
    expected = fastif.Exact().prepare(few).solve(right, 0.1).value
    prepared = Auto(seed=3, most=10).prepare(operator)
    assert (few.examples, prepared.operator.examples) == (10, 10)  # by which the damping is chosen
    for rows in (MOST_ROWS["cpu"], 0):  # by Woodbury's identity, and by conjugate gradients
        monkeypatch.setitem(MOST_ROWS, "cpu", rows)
        prepared = Auto(seed=3, most=10).prepare(operator)
        moved = prepared.moved(operator) if hasattr(prepared, "moved") else prepared
        for each in (prepared, moved):
            seen = each.solve(right, 0.1).value
            assert relative_error(vectors.flatten(seen), vectors.flatten(expected)) < 1e-4
    assert hasattr(prepared, "moved")
    with pytest.raises(ConfigurationError, match="at least 1"):
        Auto(most=0).prepare(operator)


@pytest.mark.parametrize("curvature", CURVATURES)
def test_the_longest_rows_shorten_the_iteration_and_change_no_answer(curvature: Any) -> None:
    operator = operator_of("transformer", curvature)
    damping = safe_damping("transformer", curvature)
    block = as_block(gradients("transformer", "queries"), operator)
    plain, rows = (
        fastif.ConjugateGradient(tolerance=1e-9, preconditioner_rows=count).prepare(operator) for count in (0, 12)
    )
    one, other = plain.solve(block, damping), rows.solve(block, damping)
    assert relative_error(vectors.flatten(other.value), vectors.flatten(one.value)) < 1e-7
    assert other.iterations < one.iterations
    assert "preconditioned by the longest 12 of" in rows.description
    top = float(torch.linalg.eigvalsh(matrix("transformer", "gauss-newton")).max())
    assert 0.5 * top < rows.spectrum_at_hand().top <= top * (1 + 1e-9)


def test_one_preconditioner_is_used() -> None:
    with pytest.raises(ConfigurationError, match="one preconditioner"):
        fastif.ConjugateGradient(preconditioner_rank=3, preconditioner_rows=3)
    with pytest.raises(ConfigurationError, match="must not be negative"):
        fastif.ConjugateGradient(preconditioner_rows=-1)


@pytest.mark.parametrize("solver", [*CURVED, *DRAWN])
def test_what_was_prepared_is_gone_as_soon_as_nobody_holds_it(solver: str) -> None:
    curvature = "hessian" if solver in DRAWN else "gauss-newton"  # so that steps go through the model
    operator = operator_of(NAME, curvature)
    gc.collect()
    gc.disable()  # which does not know that a GPU is full
    try:
        prepared = {**CURVED, **DRAWN}[solver].prepare(operator)
        prepared.solve(as_block(gradients(NAME, "queries"), operator), safe_damping(NAME, curvature))
        gone = weakref.ref(prepared)
        del prepared
        assert gone() is None
    finally:
        gc.enable()
