"""A step that was traced and compiled does what the step does, also after what it closes over has changed."""

from collections.abc import Callable

import pytest
import torch

import fastif
from fastif import vectors
from fastif.batch import Batch
from fastif.curvature import CurvatureOperator
from fastif.errors import FastifWarning
from fastif.solvers.fusing import fused
from fastif.vectors import Block
from tests.problems import case, model_of

GROUPS = 2


def step_of(operator: CurvatureOperator, right: Block) -> Callable[[Block, Batch], None]:
    def step(state: Block, batch: Batch) -> None:
        vectors.advance(state, 0.9, right, operator.grouped(batch, state, GROUPS), -0.01)

    return step


def prepared() -> tuple[CurvatureOperator, Block, Block]:
    it = case("mlp_dropout", torch.float64)
    model = model_of(it)
    data = fastif.Examples(it.train)
    model.check(model.place(data.batch([0, 1])))
    operator = CurvatureOperator(model, data, kind="hessian")
    right, state = (vectors.random(model.parameters, GROUPS, seed=seed) for seed in (0, 1))
    return operator, right, state


def after(step: Callable[[Block, Batch], None], state: Block, batch: Batch) -> Block:
    changed = {name: tensor.clone() for name, tensor in state.items()}
    step(changed, batch)
    return changed


@pytest.mark.parametrize("backend", ["traced", pytest.param("inductor", marks=pytest.mark.slow)])
def test_a_fused_step_is_the_step(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    operator, right, state = prepared()
    if backend == "traced":
        monkeypatch.setattr(torch, "compile", lambda traced: traced)
    step = step_of(operator, right)
    made = fused(step, state, operator.batch(torch.tensor([0, 1])))
    assert made is not step
    for ids in ([0, 1], [2, 5]):
        batch = operator.batch(torch.tensor(ids))
        torch.testing.assert_close(after(made, state, batch), after(step, state, batch))
        for tensor in right.values():  # another right-hand side
            tensor.mul_(3.0)


def test_what_cannot_be_compiled_runs_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    operator, right, state = prepared()

    def refuse(traced: object) -> None:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(torch, "compile", refuse)
    step = step_of(operator, right)
    with pytest.warns(FastifWarning, match="could not be compiled"):
        assert fused(step, state, operator.batch(torch.tensor([0, 1]))) is step
