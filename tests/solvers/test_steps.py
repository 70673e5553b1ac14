"""Recorded steps are the plain ones, whatever memory there is; a stand-in records, as CUDA graphs need a GPU."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import pytest
import torch
from torch import Tensor

from fastif import vectors
from fastif.batch import Batch
from fastif.curvature import CurvatureOperator
from fastif.integrations.huggingface import TextClassifier
from fastif.solvers import steps
from fastif.solvers.steps import Steps
from fastif.vectors import Block
from tests.integrations.huggingface import tiny

GROUPS, COUNT = 2, 20
IDS = torch.randint(len(tiny.TEXTS), (COUNT, GROUPS), generator=torch.Generator().manual_seed(0))


class Recording:
    """Takes the step itself, where a CUDA graph would replay it."""

    def __init__(self, step: Callable[[Block, Batch], None], batch: Batch, state: Block, **_: Any) -> None:
        self._step, self._state = step, state
        self.shapes = [tensor.shape for tensor in batch.tensors().values()]

    def step(self, batch: Batch) -> None:
        assert self.shapes == [tensor.shape for tensor in batch.tensors().values()]
        self._step(self._state, batch)


class Run:
    """Steps on a tiny encoder, in full or with room for so many examples; notes what it sees after each."""

    def __init__(self, room: int | None = None) -> None:
        model = TextClassifier(tiny.module_of("bert", dtype=torch.float64), tiny.tokenizer_of("bert"))
        data = model.examples(tiny.TEXTS, tiny.LABELS)
        model.check(model.place(data.batch([0, 1])))
        self.operator = CurvatureOperator(model, data, kind="hessian")
        self.laid_out: list[int] = []
        if room is not None:
            self._bound(room)

    def _bound(self, room: int) -> None:
        whole = self.operator.batch

        def batch(ids: Tensor) -> Batch:
            if len(ids) > room:
                raise torch.OutOfMemoryError
            self.laid_out.append(len(ids))
            return whole(ids)

        self.operator.batch = batch  # type: ignore[method-assign]

    @cached_property
    def steps(self) -> Steps:
        right = vectors.random(self.operator.model.parameters, GROUPS, seed=0)

        def update(state: Block, image: Block) -> None:
            vectors.advance(state, 0.9, right, image, -0.01)

        one = vectors.random(self.operator.model.parameters, 1, seed=1)
        return Steps(self.operator, one, update, groups=GROUPS)

    def seen(self) -> list[tuple[int, Tensor]]:
        found: list[tuple[int, Tensor]] = []
        start = vectors.random(self.operator.model.parameters, GROUPS, seed=2)
        end = self.steps.run(start, IDS, lambda step, state: found.append((step, vectors.flatten(state).clone())))
        assert torch.equal(vectors.flatten(end), found[-1][1])
        return found


@pytest.fixture(scope="module")
def plain() -> list[tuple[int, Tensor]]:
    found = Run().seen()
    assert [step for step, _ in found] == list(range(COUNT))
    return found


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    monkeypatch.setattr(steps, "_Graph", Recording)
    monkeypatch.setattr(steps, "_by_length", lambda operator, ids: operator.data.lengths[ids].amax(dim=1))
    monkeypatch.setattr(steps, "_steps_at_once", lambda *_: 12)

    def make(room: int | None = None) -> Run:
        run = Run(room)
        run.steps._recordable = True
        return run

    return make


def assert_same(seen: list[tuple[int, Tensor]], expected: list[tuple[int, Tensor]]) -> None:
    assert [step for step, _ in seen] == [step for step, _ in expected]
    for (_, one), (_, other) in zip(seen, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_recorded_steps_are_plain_steps(recorded: Callable[..., Run], plain: list[tuple[int, Tensor]]) -> None:
    run = recorded()
    assert_same(run.seen(), plain)
    assert run.steps.recordings > 1  # for several lengths


@pytest.mark.parametrize("room", [GROUPS, 3 * GROUPS])
def test_as_many_examples_are_laid_out_as_there_is_memory_for(
    room: int, recorded: Callable[..., Run], plain: list[tuple[int, Tensor]]
) -> None:
    run = recorded(room)
    assert_same(run.seen(), plain)
    assert run.steps.recordings > 1
    assert max(run.laid_out) <= room


@pytest.mark.parametrize("room", [0, 1, 2])
@pytest.mark.parametrize("error", [torch.OutOfMemoryError, steps._NotRecordable])
def test_steps_are_plain_from_the_first_that_cannot_be_recorded(
    room: int,
    error: type[Exception],
    recorded: Callable[..., Run],
    plain: list[tuple[int, Tensor]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Recording] = []

    def few(*given: Any, **named: Any) -> Recording:
        if len(made) == room:
            raise error
        made.append(Recording(*given, **named))
        return made[-1]

    monkeypatch.setattr(steps, "_Graph", few)
    run = recorded()
    assert_same(run.seen(), plain)
    assert len(made) == room
    assert_same(run.seen(), plain)  # and in the next run


def test_a_plain_step_that_does_not_fit_says_so(recorded: Callable[..., Run]) -> None:
    with pytest.raises(torch.OutOfMemoryError):
        recorded(room=1).seen()
