"""Estimates of memory against what torch allocates in fact, and what a checkup finds."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import fastif
from fastif import jacobian
from fastif.apps.checkup import Level, advise, estimate, examine
from fastif.apps.checkup.estimate import Estimate, Stage
from fastif.apps.checkup.live import LiveBytes, line_of, peak_at
from fastif.apps.checkup.machine import allocator_share, free_memory, held_memory, peak_memory
from fastif.apps.checkup.sample import Sample
from fastif.solvers import auto, demand


class Block(nn.Module):
    """A small model with attention and a layer norm, over sequences."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0)
        self.head = nn.Linear(32, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.inner(x).mean(dim=1))


def data(count: int = 48) -> fastif.Examples:
    torch.manual_seed(0)
    return fastif.Examples((torch.randn(count, 7, 32), torch.arange(count) % 3))


@pytest.fixture
def model() -> fastif.TorchModel:
    torch.manual_seed(1)
    made = fastif.TorchModel(Block(), loss="cross_entropy")
    made.check(made.place(data().batch(range(4))))
    return made


def test_bytes_of_views_and_of_what_was_there_before_do_not_count():
    before = torch.zeros(1000)
    with LiveBytes("cpu") as seen:
        before.add_(1)
        before[:10].view(2, 5)
        kept = before * 2
    assert seen.peak == kept.nbytes == 4000


@pytest.mark.parametrize(
    "step",
    ["spectrum", "spectrum by rows", "spectrum by factors", "solve", "solve by rows", "solve by factors", "scan"],
)
@pytest.mark.parametrize("rows", [24, 48])
def test_the_peak_of_a_large_step_follows_from_small_ones(model, step, rows):
    sample = Sample(model, data())
    name, *ways = step.split(" by ")
    take = partial(getattr(sample, name), way=ways[0]) if ways else getattr(sample, name)
    ids = torch.arange(48)
    for width in (2, 3, 5):
        take(ids[:3], width)  # what is made once
    lines = {(r, k): line_of(lambda r=r, k=k: take(ids[:r], k), "cpu") for r in (3, 6) for k in (2, 3)}
    expected = line_of(lambda: take(ids[:rows], 5), "cpu").max()
    assert peak_at(lines, rows, 5, 5) == pytest.approx(expected, rel=0.1)


def test_rows_are_counted_for_the_examples_that_go_together(model, monkeypatch):
    size = sum(tensor.nbytes for tensor in model.parameters.values())
    monkeypatch.setattr(jacobian, "BYTES", 6 * size)
    sample, ids = Sample(model, data()), torch.arange(48)
    take = partial(sample.product, way="rows")
    for width in (2, 3, 4):
        take(ids[:3], width)  # what is made once
    lines = {(r, k): line_of(lambda r=r, k=k: take(ids[:r], k), "cpu") for r in (3, 6) for k in (2, 3)}
    batch = sum(tensor.nbytes for tensor in data().batch(ids).tensors().values())
    assert peak_at(lines, 6, 4, 4) + batch == pytest.approx(line_of(lambda: take(ids, 4), "cpu").max(), rel=0.15)


def test_an_estimate_follows_the_subsample_of_the_curvature(model, monkeypatch):
    monkeypatch.setattr(auto, "EXACT_SIDE", 0)
    rows = estimate(model, data(), held=10**9, batch_size=8)
    assert rows.stages[0].note.startswith("96 Jacobian rows of 48 examples")
    assert [stage.name for stage in rows.stages][:2] == ["curvature matrix, damping", "solve for the queries"]
    monkeypatch.setitem(demand.MOST_ROWS, "cpu", 0)
    whole = estimate(model, data(), held=10**9, batch_size=8)
    monkeypatch.setattr(auto, "PASS_WORK", {"cpu": 1.0})
    monkeypatch.setattr(auto, "LEAST_SUBSAMPLE", {"cpu": 12})
    part = estimate(model, data(), held=10**9, batch_size=8)
    assert (whole.curvature_examples, part.curvature_examples) == (48, 12)
    assert "over the data" in whole.stages[0].note
    assert "over a random 12 of 48 examples" in part.stages[0].note
    assert part.stages[0].peak_bytes < whole.stages[0].peak_bytes  # fewer batches stay in place


def test_lines_of_unequal_length_are_compared_by_their_peaks():
    lines = {(3, 1): np.array([1.0, 30.0]), (6, 1): np.array([60.0])}
    assert peak_at(lines, rows=12, vectors=1, tangents=1) == 120.0


@pytest.mark.parametrize("queries", [1, 3])
def test_an_estimate_has_time_and_memory_for_every_stage(model, queries):
    made = estimate(model, data(), queries=queries, held=10**9, batch_size=16)
    assert [stage.name for stage in made.stages][-2:] == ["scan the training data", "nearest neighbours"]
    assert all(stage.seconds is not None and stage.seconds > 0 for stage in made.stages)
    assert all(stage.peak_bytes is not None and stage.peak_bytes >= 10**9 for stage in made.stages)
    assert made.parameters == sum(tensor.numel() for tensor in model.parameters.values())
    assert made.as_json()["peak_bytes"] == made.peak_bytes >= made.held_bytes
    assert made.fits


def test_one_example_can_be_estimated(model):
    assert estimate(model, data(1)).peak_bytes > 0


def test_a_sound_model_has_no_problem(model):
    findings = examine(model, data(6))
    assert [finding.what for finding in findings][-1] == "an explanation"
    assert {finding.level for finding in findings} == {Level.OK, Level.WARNING}  # no frozen layers here
    assert next(it for it in findings if it.level is Level.WARNING).what == "frozen layers"


def test_weights_that_are_no_numbers_are_a_problem_and_named(model):
    with torch.no_grad():
        model.module.head.bias[0] = float("nan")
    findings = examine(model, data(6))
    assert findings[-1].level is Level.PROBLEM
    assert "head.bias" in findings[-1].found
    assert len(findings) == 1


class OnlyBackward(torch.autograd.Function):
    """A function with no forward mode."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, slope):
        return 2 * ctx.saved_tensors[0] * slope


class Squared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 5), nn.Linear(5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(OnlyBackward.apply(self.first(x)))


def test_a_model_without_forward_mode_gets_a_warning():
    examples = fastif.Examples((torch.randn(6, 4), torch.arange(6) % 2))
    findings = examine(fastif.TorchModel(Squared(), loss="cross_entropy"), examples)
    found = {finding.what: finding for finding in findings}
    assert found["forward-mode derivatives"].level is Level.WARNING
    assert "double backward" in found["forward-mode derivatives"].found
    assert found["an explanation"].level is Level.OK


def plan(**changes) -> Estimate:
    stages = (Stage("solve for the queries", changes.pop("time", 5.0), changes.pop("peak", 10**9)),)
    given = {
        "parameters": 10,
        "examples": 50_000,
        "curvature_examples": 1_000,
        "queries": 4,
        "queries_at_once": 4,
        "device": "cpu",
        "states_bytes": 0,
        "states_on_disk": False,
        "held_bytes": 10**8,
        "free_bytes": 8 * 10**9,
    }
    return Estimate(**{**given, **changes}, stages=stages)


def test_advice_is_given_where_it_is_needed():
    assert advise(plan()) == []
    short = " ".join(advise(plan(peak=9 * 10**9, states_bytes=4 * 10**9), allocator=True))
    for word in ("is more than", "--freeze-layers", "--batch-size", "bfloat16", "--limit", "MALLOC_MMAP_THRESHOLD_"):
        assert word in short
    slow = " ".join(advise(plan(time=10_000.0)))
    assert "--device cuda" in slow
    assert "--freeze-layers" in slow


def test_the_machine_tells_its_memory(monkeypatch):
    cpu = torch.device("cpu")
    assert free_memory(cpu) > 0
    assert 0 < held_memory() <= 1.1 * peak_memory()
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "131072")
    assert allocator_share(cpu) == 1.0
