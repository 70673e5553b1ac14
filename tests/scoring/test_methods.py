"""All ways of scoring give the same numbers, say so where they are inexact, and are chosen by what they cost."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fastif
from fastif import formed, vectors
from fastif.capture import Outer
from fastif.errors import ConfigurationError, PrecisionWarning
from fastif.scoring import auto, captured, choose, gemm, ghost, jvp, low_rank, scan
from fastif.scoring.captured import find_route
from tests import oracles
from tests.problems import CASE_NAMES, case, model_of, relative_error
from tests.test_model import State

METHODS = ("ghost", "gemm", "auto")


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-8), (torch.float32, 1e-4)])
@pytest.mark.parametrize("name", CASE_NAMES)
def test_all_ways_equal_the_backward_loop(name: str, dtype: torch.dtype, tolerance: float) -> None:
    it = case(name, dtype)
    model, data = model_of(it), fastif.Examples(it.train)
    rows = oracles.per_example_gradients(it.module, it.names, it.loss, it.train)
    before = State(it.module)
    for directions in (1, 3, 40):
        block = vectors.random(model.parameters, directions, seed=0)
        for method in METHODS:
            seen = scan(model, data, block, batch_size=7, method=method)
            assert seen.dtype == dtype
            assert relative_error(seen, vectors.flatten(block) @ rows.T) < tolerance, (method, directions)
        full = low_rank.scan_with_error(model, data, block, rank=99, sample=5, batch_size=7)
        assert relative_error(full.values, vectors.flatten(block) @ rows.T) < tolerance, directions
        assert full.direction_error.max() < tolerance
        assert full.score_error.max() < tolerance
    before.assert_unchanged()


@pytest.mark.parametrize("method", METHODS)
def test_given_ids_keep_their_order(method: Any) -> None:
    it = case("mlp_dropout")
    model, data = model_of(it), fastif.Examples(it.train)
    block = vectors.random(model.parameters, 3, seed=0)
    ids = torch.tensor([9, 0, 17, 3])
    seen = scan(model, data, block, ids=ids, batch_size=3, method=method)
    torch.testing.assert_close(seen, scan(model, data, block, method="jvp")[:, ids])


@pytest.mark.parametrize("count", [1, 2])
def test_data_of_one_or_two_examples(count: int) -> None:
    it = case("transformer")
    model, data = model_of(it), fastif.Examples(tuple(column[:count] for column in it.train))
    block = vectors.random(model.parameters, 3, seed=0)
    torch.testing.assert_close(scan(model, data, block, method="gemm"), jvp.scan(model, data, block))


def test_a_small_budget_takes_a_few_examples_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    it = case("conv1d")
    model, data = model_of(it), fastif.Examples(it.train)
    block = vectors.random(model.parameters, 4, seed=0)
    expected = jvp.scan(model, data, block)
    largest = 0
    form = Outer.gradients

    def watched(factor: Outer) -> Tensor:
        nonlocal largest
        made = form(factor)
        largest = max(largest, made.nbytes)
        return made

    monkeypatch.setattr(captured, "find_route", lambda *arguments: route)
    route = find_route(model, data)
    monkeypatch.setattr(Outer, "gradients", watched)
    monkeypatch.setattr(formed, "BYTES", 500)
    monkeypatch.setattr(formed, "CACHED_BYTES", 500)
    monkeypatch.setattr(ghost, "CHUNK", 1)
    torch.testing.assert_close(gemm.scan(model, data, block), expected)
    assert 0 < largest <= 500
    torch.testing.assert_close(ghost.scan(model, data, block), expected)
    torch.testing.assert_close(low_rank.scan(model, data, block, rank=9), expected)


class Wrong(nn.Module):
    """A linear layer whose derivative torch is told wrongly, and differently forwards and backwards."""

    class Twice(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Tensor) -> Tensor:
            return x * 1

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, slope: Tensor) -> Tensor:  # type: ignore[override]
            return 2 * slope

        @staticmethod
        def jvp(ctx: Any, change: Tensor) -> Tensor:  # type: ignore[override]
            return change * 1

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.second(Wrong.Twice.apply(self.first(x)))  # type: ignore[no-untyped-call]
        return result


@pytest.mark.parametrize("method", METHODS)
def test_what_differs_from_forward_mode_is_left_to_forward_mode(method: Any) -> None:
    torch.manual_seed(0)
    model = fastif.TorchModel(Wrong().double(), loss="cross_entropy")
    data = fastif.Examples((torch.randn(9, 3), torch.randint(2, (9,))))
    block = vectors.random(model.parameters, 6, seed=0)
    route = find_route(model, data)
    assert route.plan is None
    assert "differs from a general derivative" in route.note
    assert torch.equal(scan(model, data, block, method=method), jvp.scan(model, data, block))


@pytest.mark.parametrize("method", METHODS)
def test_layers_that_depend_on_the_data_fall_back_batch_by_batch(method: Any) -> None:
    class Sometimes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.a(x) if x.shape[0] != 4 else self.a(x) + 0 * self.b(x)
            return result

    torch.manual_seed(0)
    model = fastif.TorchModel(Sometimes().double(), loss="cross_entropy")
    data = fastif.Examples((torch.randn(10, 3), torch.randint(3, (10,))))
    block = vectors.random(model.parameters, 6, seed=0)
    seen = scan(model, data, block, batch_size=4, method=method)
    torch.testing.assert_close(seen, jvp.scan(model, data, block))


def test_a_low_rank_reports_the_error_it_makes() -> None:
    it = case("embedding")
    model, data = model_of(it), fastif.Examples(it.train)
    block = vectors.random(model.parameters, 3, seed=0)
    exact = jvp.scan(model, data, block)
    norms = oracles.per_example_gradients(it.module, it.names, it.loss, it.train).norm(dim=1)
    errors = []
    for rank in (1, 2, 3):
        seen = low_rank.scan_with_error(model, data, block, rank=rank, sample=24, batch_size=7)
        missed = seen.values - exact
        torch.testing.assert_close(seen.score_error, missed.norm(dim=1) / exact.norm(dim=1))
        bound = seen.direction_error * vectors.norm(block)
        assert (missed.abs() <= bound[:, None] * norms + 1e-12).all()
        some = low_rank.scan_with_error(model, data, block, rank=rank, sample=12)
        assert some.sample == 12
        assert torch.equal(low_rank.scan(model, data, block, rank=rank, batch_size=7), seen.values)
        errors.append(float(seen.direction_error.max()))
    assert errors[0] > errors[1] > 0.05
    assert errors[2] < 1e-12


def test_a_direction_of_low_rank_is_scored_exactly() -> None:
    it = case("mlp_dropout")
    model, data = model_of(it), fastif.Examples(it.train)
    block = {
        name: each if each.ndim == 2 else each[..., :1] * each[..., :1, :]
        for name, each in vectors.random(model.parameters, 2, seed=0).items()
    }
    seen = low_rank.scan_with_error(model, data, block, rank=1)
    torch.testing.assert_close(seen.values, jvp.scan(model, data, block))
    assert seen.direction_error.max() < 1e-12


def test_one_direction_goes_forward_and_many_are_captured() -> None:
    def chosen(name: str, directions: int) -> str:
        model, data = model_of(case(name)), fastif.Examples(case(name).train)
        return choose(model, data, vectors.random(model.parameters, directions, seed=0)).method

    assert [chosen("transformer", directions) for directions in (1, 2, 3, 128)] == ["jvp", *["capture"] * 3]
    assert [chosen("lstm", directions) for directions in (1, 2, 16, 128)] == ["jvp", "jvp", "capture", "capture"]


def test_the_cheaper_product_is_chosen_by_positions_and_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(positions: int, directions: int) -> str:
        factor = Outer("w", torch.ones(2, positions, 1, 3), torch.ones(2, positions, 1, 2))
        result: Any = auto.cheaper_product(factor, torch.ones(directions, 3, 2))
        return str(result)

    monkeypatch.setattr(ghost, "ghost_product", lambda *_: "ghost")
    monkeypatch.setattr(gemm, "gemm_product", lambda *_: "gemm")
    assert [chosen(1, directions) for directions in (1, 16, 128)] == ["ghost", "ghost", "gemm"]
    assert [chosen(40, directions) for directions in (1, 2, 128)] == ["ghost", "gemm", "gemm"]


def test_wrong_arguments_are_named() -> None:
    it = case("regression")
    model, data = model_of(it), fastif.Examples(it.train)
    block = vectors.random(model.parameters, 2, seed=0)
    with pytest.raises(ConfigurationError, match="method must be one of auto, jvp, ghost, gemm"):
        scan(model, data, block, method="fast")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="rank"):
        low_rank.scan(model, data, block, rank=0)
    with pytest.raises(ConfigurationError, match="sample"):
        low_rank.scan_with_error(model, data, block, rank=1, sample=0)


@pytest.mark.gpu
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-8), (torch.float32, 1e-3)])
@pytest.mark.parametrize("name", CASE_NAMES)
def test_all_ways_on_a_gpu_equal_forward_mode_on_the_cpu(name: str, dtype: torch.dtype, tolerance: float) -> None:
    it = case(name, dtype)
    data = fastif.Examples(it.train)
    moved = fastif.TorchModel(copy.deepcopy(it.module).cuda(), loss=it.loss, trainable=it.trainable)
    assert find_route(moved, data).plan is not None
    for directions in (1, 40):
        block = vectors.random(moved.parameters, directions, seed=0)
        on_cpu = {key: tensor.cpu() for key, tensor in block.items()}
        expected = jvp.scan(model_of(it), data, on_cpu)
        for method in METHODS:
            assert relative_error(scan(moved, data, block, batch_size=7, method=method), expected) < tolerance, method
        assert relative_error(low_rank.scan(moved, data, block, rank=99), expected) < tolerance


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["transformer", "mlp_dropout"])
def test_scores_in_half_precision_are_near(name: str, half: torch.dtype) -> None:
    it = case(name, torch.float32)
    model, data = model_of(it), fastif.Examples(it.train)
    directions = vectors.random(model.parameters, 3, seed=0)
    expected = scan(model, data, directions, batch_size=7)
    seen = scan(model, data, directions, batch_size=7, half=model.in_half(half))
    assert relative_error(seen, expected) < {torch.float16: 5e-3, torch.bfloat16: 4e-2}[half]
    assert not torch.equal(seen, expected)


def test_a_layer_without_half_precision_is_scored_in_full() -> None:
    it = case("cnn_batchnorm", torch.float32)
    model, data = model_of(it), fastif.Examples(it.train)
    model.check(model.place(data.batch(range(4))))  # as an explainer does
    directions = vectors.random(model.parameters, 3, seed=0)
    with pytest.warns(PrecisionWarning, match="own precision"):
        seen = scan(model, data, directions, half=model.in_half(torch.bfloat16))
    assert relative_error(seen, scan(model, data, directions)) < 1e-5


def test_what_half_precision_cannot_hold_is_scored_again() -> None:
    it = case("mlp_dropout", torch.float32)
    model = model_of(it)
    inputs = it.train[0].clone()
    inputs[3] *= 1e6  # beyond float16
    data = fastif.Examples((inputs, *it.train[1:]))
    directions = vectors.random(model.parameters, 3, seed=0)
    expected = scan(model, data, directions)
    with pytest.warns(PrecisionWarning, match="the scores of 1 of 24 examples"):
        seen = scan(model, data, directions, half=model.in_half(torch.float16))
    assert torch.isfinite(seen).all()
    assert relative_error(seen[:, 3], expected[:, 3]) < 1e-5
