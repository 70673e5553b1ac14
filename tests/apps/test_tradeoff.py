"""The trade-off of the paper's solver: errors against both references, as plain formulas give them, and times."""

import json

import pytest
import torch

import fastif
from fastif import vectors
from fastif.apps.tradeoff import Grid, Tradeoff
from fastif.errors import ConfigurationError, ConvergenceError
from tests.apps.test_retraining import blobs, logistic

TRAIN, QUERIES = blobs(120, 0), blobs(6, 1)
GRID = Grid(depths=(10, 30, 60), batch_sizes=(1, 8, 60), repeats=(1, 4), damp=0.05, scale=5.0)


@pytest.fixture(scope="module")
def model() -> fastif.TorchModel:
    return logistic(TRAIN)


def test_errors_are_those_of_the_solver_against_a_dense_solution(model: fastif.TorchModel) -> None:
    done = Tradeoff(model, TRAIN, queries=QUERIES).run(GRID)
    assert done.damping == pytest.approx(0.25)
    assert done.to_converged.shape == (3, 2, 3, 6)
    explainer = fastif.Explainer(model, TRAIN, damping=0.25, curvature="hessian")
    operator = explainer._operator
    placed = model.place(fastif.Examples(QUERIES).batch(range(6)))
    block = operator.jacobian.gradients(placed, model.losses)
    identity = vectors.unflatten(torch.eye(vectors.size(model.parameters), dtype=torch.float64), model.parameters)
    matrix = vectors.flatten(operator(identity, 0.25))
    exact = torch.linalg.solve(matrix, vectors.flatten(block).T).T

    def solved(depth: int, size: int, repeats: int) -> torch.Tensor:
        solver = fastif.LiSSA.paper(damp=0.05, scale=5.0, depth=depth, batch_size=size, repeats=repeats)
        return vectors.flatten(solver.prepare(operator).solve(block, 0.0).value)

    expected = (solved(30, 8, 4) - exact).norm(dim=1) / exact.norm(dim=1)
    torch.testing.assert_close(done.to_converged[1, 1, 1], expected, rtol=1e-3, atol=0)
    dearest = solved(60, 60, 4)
    expected = (solved(10, 1, 4) - dearest).norm(dim=1) / dearest.norm(dim=1)
    torch.testing.assert_close(done.to_expensive[0, 1, 0], expected, rtol=1e-6, atol=0)
    assert float(done.to_expensive[2, 1, 2].max()) < 1e-12
    plain = (vectors.flatten(block) / 0.25 - exact).norm(dim=1) / exact.norm(dim=1)
    torch.testing.assert_close(done.no_solve, plain, rtol=1e-3, atol=0)


def test_larger_batches_and_more_repeats_come_closer(model: fastif.TorchModel) -> None:
    done = Tradeoff(model, TRAIN, queries=QUERIES, curvature="gauss-newton").run(GRID)
    last = done.to_converged[:, :, -1].mean(dim=-1)  # (B, T)
    assert float(last[0, 0]) > float(last[1, 0]) > float(last[2, 0])
    assert float(last[0, 1]) < float(last[0, 0])
    assert bool((done.seconds.diff(dim=-1) > 0).all())  # more steps take longer
    rows = done.rows()
    assert {row.group for row in rows} == {"right", "wrong", "all"}
    assert len(rows) == 3 * 18
    told = done.as_json()
    json.dumps(told, allow_nan=False)
    words = " ".join(told["summary"])
    assert "At a damping of 0.25, the dearest setting (J 60, B 60, T 4" in words
    assert "With batches of 1, 4 repeats in the place of 1 bring the error" in words


def test_queries_in_parts_give_the_same(model: fastif.TorchModel, monkeypatch: pytest.MonkeyPatch) -> None:
    grid = Grid(depths=(5, 10), batch_sizes=(1, 8), repeats=(1, 2), damp=0.05, scale=5.0)
    whole = Tradeoff(model, TRAIN, queries=QUERIES).run(grid)
    monkeypatch.setattr(Tradeoff, "_queries_at_once", lambda self, grid: 4)
    parts = Tradeoff(model, TRAIN, queries=QUERIES).run(grid)
    torch.testing.assert_close(parts.to_expensive, whole.to_expensive, rtol=1e-6, atol=1e-12)
    torch.testing.assert_close(parts.to_converged, whole.to_converged, rtol=1e-4, atol=0)


def test_wrong_use_says_what_to_change(model: fastif.TorchModel) -> None:
    with pytest.raises(ConfigurationError, match="depths must be whole numbers"):
        Grid(depths=(0,))
    with pytest.raises(ConfigurationError, match="damp and scale"):
        Grid(damp=0.0)
    wild = Grid(depths=(300,), batch_sizes=(1,), repeats=(1,), damp=0.01, scale=1e-3)
    with pytest.raises(ConvergenceError, match="Raise the scale"):
        Tradeoff(model, TRAIN, queries=QUERIES).run(wild)
    one = Tradeoff(model, TRAIN, queries=(QUERIES[0][:1], QUERIES[1][:1]))
    done = one.run(Grid(depths=(5,), batch_sizes=(2,), repeats=(1,), damp=0.1, scale=10.0))
    assert done.rows()[0].to_converged_deviation is None
    assert len(done.in_words()) == 2
