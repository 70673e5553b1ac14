"""Captured factors give each example's gradient, of whatever layer and however the examples lie in its input."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor, nn

import fastif
from fastif.batch import Batch
from fastif.capture import CaptureError, Plan, capture, make_plan, run_forward
from fastif.derivatives import gradients
from tests.problems import CASE_NAMES, case, model_of
from tests.test_model import State


def placed(module: nn.Module, x: Tensor) -> tuple[fastif.TorchModel, Batch]:
    """The module in float64 with a loss that all outputs enter, and a batch of its inputs."""

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs.flatten(1).sin() * torch.arange(1.0, 1 + outputs[0].numel())).sum(dim=1)

    model = fastif.TorchModel(module.double(), loss=loss)
    return model, model.place(fastif.Examples((x, torch.zeros(len(x)))).batch(range(len(x))))


def assert_captured(model: fastif.TorchModel, batch: Batch, *, rest: set[str] | frozenset[str] = frozenset()) -> Plan:
    """Compare the sum over factors with the gradients, and the rest with what is expected."""
    plan = make_plan(model, batch.rows(0, 3))
    assert set(plan.rest) == rest
    seen: dict[str, Tensor] = {}
    for factor in capture(model, batch, plan):
        seen[factor.name] = seen.get(factor.name, torch.tensor(0.0)) + factor.gradients()
    expected = gradients(model, batch)
    for name in plan.captured:
        if name in seen:
            torch.testing.assert_close(seen[name], expected[name].flatten(1), rtol=1e-9, atol=1e-11)
        else:
            assert not expected[name].any()
    return plan


REST = {
    "lstm": {f"lstm.{kind}_{side}_l0" for kind in ("weight", "bias") for side in ("ih", "hh")},
    "temperature": {"logit_scale"},
    "shared_parameter": {"weight"},  # once as weight.T
}


@pytest.mark.parametrize("name", CASE_NAMES)
def test_factors_make_the_gradient_of_each_example(name: str) -> None:
    it = case(name)
    model = model_of(it)
    batch = model.place(fastif.Examples(it.train).batch(range(24)))
    assert_captured(model, batch, rest=REST.get(name, frozenset()))


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths:UserWarning")
@given(
    dimensions=st.integers(1, 3),
    groups=st.integers(1, 2),
    kernel=st.lists(st.integers(1, 3), min_size=3, max_size=3),
    stride=st.lists(st.integers(1, 3), min_size=3, max_size=3),
    dilation=st.lists(st.integers(1, 2), min_size=3, max_size=3),
    padding=st.one_of(st.sampled_from(["same", "valid"]), st.lists(st.integers(0, 2), min_size=3, max_size=3)),
    mode=st.sampled_from(["zeros", "circular", "reflect"]),
)
def test_convolutions_with_all_their_options(
    dimensions: int,
    groups: int,
    kernel: list[int],
    stride: list[int],
    dilation: list[int],
    padding: Any,
    mode: str,
) -> None:
    assume(padding != "same" or max(stride[:dimensions]) == 1)
    assume(all(d * (k - 1) < 4 for d, k in zip(dilation, kernel, strict=True)))
    torch.manual_seed(0)
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dimensions - 1]
    convolution = kind(
        2,
        4,
        tuple(kernel[:dimensions]),
        stride=tuple(stride[:dimensions]),
        padding=padding if isinstance(padding, str) else tuple(padding[:dimensions]),
        dilation=tuple(dilation[:dimensions]),
        groups=groups,
        padding_mode=mode,
    )
    x = torch.randn(4, 2, 4, 5, 4)[(..., *[0] * (3 - dimensions))]
    assert_captured(*placed(nn.Sequential(convolution, nn.Tanh()), x))


class Function(nn.Module):
    """A module made of parts and a forward pass."""

    def __init__(self, forward: Callable[[Any, Tensor], Tensor], **parts: Any) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.run = forward

    def forward(self, x: Tensor) -> Tensor:
        return self.run(self, x)


def linear() -> nn.Module:
    return nn.Linear(3, 3)


ARRANGEMENTS: dict[str, tuple[Callable[[], nn.Module], set[str]]] = {
    "a layer called twice": (lambda: Function(lambda s, x: s.a(s.a(x).tanh()), a=linear()), set()),
    "changed in place afterwards": (lambda: nn.Sequential(linear(), nn.ReLU(inplace=True), linear()), set()),
    "changed in place, no positions": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 3), nn.ReLU(inplace=True), linear()),
        set(),
    ),
    "time first": (lambda: Function(lambda s, x: s.a(x.transpose(0, 1)).transpose(0, 1), a=linear()), set()),
    "positions folded in": (lambda: Function(lambda s, x: s.a(x.flatten(0, 1)).view(x.shape), a=linear()), set()),
    "positions folded in before": (
        lambda: Function(
            lambda s, x: s.a(x.mT.permute(2, 0, 1).flatten(0, 1)).view(4, -1, 3).transpose(0, 1), a=linear()
        ),
        set(),
    ),
    "weight used by a function": (lambda: Function(lambda s, x: F.linear(s.a(x), s.a.weight), a=linear()), set()),
    "weight used in a product": (lambda: Function(lambda s, x: s.a(x) @ s.a.weight, a=linear()), set()),
    "weight used beside its layer": (
        lambda: Function(lambda s, x: s.a(x) + s.a.weight.square().sum(), a=linear()),
        {"a.weight"},
    ),
    "layer without examples": (
        lambda: Function(lambda s, x: s.a(x) + s.p(torch.arange(4)), a=linear(), p=nn.Embedding(4, 3)),
        {"p.weight"},
    ),
    "parts out of use": (lambda: Function(lambda s, x: (s.b(x), s.a(x))[1], a=linear(), b=linear(), c=linear()), set()),
    "bare parameters": (
        lambda: Function(
            lambda s, x: s.gain * x + s.shift + s.place,
            gain=nn.Parameter(torch.randn(3)),
            shift=nn.Parameter(torch.randn(3)),
            place=nn.Parameter(torch.randn(4, 3)),
        ),
        {"place"},
    ),
    "weight normalised": (
        lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)),
        {"parametrizations.weight.original0", "parametrizations.weight.original1"},
    ),
    "norms": (
        lambda: nn.Sequential(nn.LayerNorm((4, 3)), nn.GroupNorm(2, 4), nn.BatchNorm1d(4), nn.RMSNorm(3), linear()),
        set(),
    ),
    "attention to oneself": (
        lambda: Function(lambda s, x: s.a(x, x, x)[0], a=nn.MultiheadAttention(3, 3, batch_first=True)),
        set(),
    ),
    "attention, with a mask": (
        lambda: Function(
            lambda s, x: s.a(x, x, x, key_padding_mask=x[..., 0] > 1, need_weights=False)[0],
            a=nn.MultiheadAttention(3, 1, batch_first=True),
        ),
        set(),
    ),
    "attention to another": (
        lambda: Function(lambda s, x: s.a(x, x.sin(), x.sin())[0], a=nn.MultiheadAttention(3, 3, batch_first=True)),
        {"a.in_proj_weight", "a.in_proj_bias"},
    ),
}


@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_every_arrangement_is_captured_or_left_to_the_rest(name: str) -> None:
    torch.manual_seed(1)
    make, rest = ARRANGEMENTS[name]
    assert_captured(*placed(make(), torch.randn(5, 4, 3)), rest=rest)


@pytest.mark.parametrize("options", [{"padding_idx": 1}, {"padding_idx": -1}, {"max_norm": 0.5}, {}])
def test_embeddings_with_padding_and_renormalisation(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Embedding(5, 3, **options), nn.Flatten(), nn.Linear(12, 2))
    assert_captured(*placed(module, torch.randint(5, (6, 4))))


@pytest.mark.parametrize("options", [{"padding_idx": 1}, {"max_norm": 0.5}])
def test_a_special_look_up_by_a_function_is_that_of_the_layer(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    module = Function(lambda s, x: F.embedding(x, s.table, **options).sin(), table=nn.Parameter(torch.randn(5, 3)))
    assert_captured(*placed(module, torch.randint(5, (6, 4))))


def test_a_batch_that_runs_otherwise_is_refused() -> None:
    module = Function(lambda s, x: s.a(x) if x.sum() > 0 else s.b(s.a(x)), a=linear(), b=linear())
    model, batch = placed(module, torch.ones(4, 3))
    plan = make_plan(model, batch)
    with pytest.raises(CaptureError):
        capture(model, batch.map(torch.neg), plan)
    hidden = Function(lambda s, x: s.a(x) if x.sum() > 0 else s.a(x) + s.a.weight.sum(), a=linear())
    model, batch = placed(hidden, torch.ones(4, 3))
    plan = make_plan(model, batch)
    with pytest.raises(CaptureError):
        capture(model, batch.map(torch.neg), plan)


def test_the_module_is_left_as_it_was_also_after_an_error() -> None:
    def fail(module: Any, x: Tensor) -> Tensor:
        if module.broken:
            raise RuntimeError("out of order")
        result: Tensor = module.a(x)
        return result

    module = Function(fail, a=linear().double())
    module.broken = False
    model, batch = placed(module, torch.randn(4, 3))
    before = State(module)
    plan = make_plan(model, batch)
    capture(model, batch, plan)
    before.assert_unchanged()
    module.broken = True
    with pytest.raises(RuntimeError, match="out of order"):
        capture(model, batch, plan)
    before.assert_unchanged()
    assert torch.overrides._get_current_function_mode_stack() == []


def test_no_grad_outside_does_not_matter() -> None:
    model, batch = placed(nn.Sequential(linear(), nn.Tanh(), linear()), torch.randn(4, 3))
    with torch.no_grad():
        assert_captured(model, batch)


def test_many_backward_passes_share_one_forward_pass() -> None:
    model, batch = placed(nn.Sequential(linear(), nn.Tanh(), linear()), torch.randn(5, 4, 3))
    plan = make_plan(model, batch, lambda outputs, _: outputs.sum(dim=(1, 2)))
    forward = run_forward(model, batch, plan)
    for position in range(4):
        weights = torch.zeros_like(forward.outputs)
        weights[:, position] = 1.0

        def measure(outputs: Tensor, targets: Tensor, position: int = position) -> Tensor:
            return outputs[:, position].sum(dim=1)

        expected = gradients(model, batch, measure)
        shared = forward.factors(forward.outputs, weights, keep=True)
        alone = capture(model, batch, plan, measure)
        for factor, other in zip(shared, alone, strict=True):
            torch.testing.assert_close(factor.gradients(), expected[factor.name].flatten(1))
            torch.testing.assert_close(other.gradients(), expected[factor.name].flatten(1))


def test_a_plan_is_looked_for_once_at_whatever_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastif.capture import route

    it = case("transformer")
    module = copy.deepcopy(it.module)
    model = fastif.TorchModel(module, loss=it.loss, trainable=it.trainable)
    made = []
    monkeypatch.setattr(route, "make_plan", lambda *given: made.append(1) or make_plan(*given))
    fastif.Explainer(model, it.train, damping=0.1).scores(it.queries)
    before = len(made)
    assert before
    moved = {name: tensor + 0.01 for name, tensor in model.parameters.items()}
    seen = fastif.Explainer(model.at(moved), it.train, damping=0.1).scores(it.queries)
    assert len(made) == before
    module.load_state_dict({**module.state_dict(), **moved})
    fresh = fastif.TorchModel(module, loss=it.loss, trainable=it.trainable)
    expected = fastif.Explainer(fresh, it.train, damping=0.1).scores(it.queries)
    assert len(made) == 2 * before
    assert torch.allclose(seen.values, expected.values, rtol=1e-12, atol=1e-15)
    assert seen.provenance["scoring"] == expected.provenance["scoring"]


class TimeFirst(nn.Module):
    """Positions come before examples in what its first layer is given."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        examples, positions, features = inputs.shape
        hidden = torch.tanh(self.inner(inputs.transpose(0, 1).reshape(positions * examples, features)))
        weights = torch.arange(1.0, positions + 1, dtype=hidden.dtype)[:, None, None]
        mixed: Tensor = self.head((weights * hidden.view(positions, examples, -1)).sum(dim=0))
        return mixed


def time_first_scores(model: fastif.TorchModel, positions: int) -> tuple[Tensor, Tensor]:
    """Scores of some data with so many positions, and the same by plain autograd."""
    draw = torch.Generator().manual_seed(positions)
    inputs = torch.randn(12, positions, 3, generator=draw, dtype=torch.float64)
    targets = torch.randint(0, 2, (12,), generator=draw)
    seen = fastif.Explainer(model, (inputs, targets), solver=fastif.Identity()).scores((inputs, targets)).values
    batch = model.place(fastif.Examples((inputs, targets)).batch(range(12)))
    rows = torch.cat([tensor.flatten(1) for tensor in gradients(model, batch).values()], dim=1)
    return seen, -rows @ rows.T


def test_a_plan_that_was_found_where_slopes_are_zero_is_not_taken_elsewhere() -> None:
    torch.manual_seed(0)
    module = TimeFirst().double()
    for parameter in module.head.parameters():
        nn.init.zeros_(parameter)
    model = fastif.TorchModel(module, loss="cross_entropy")
    time_first_scores(model, 3)
    moved = {name: tensor + torch.randn_like(tensor) for name, tensor in model.parameters.items()}
    seen, expected = time_first_scores(model.at(moved), 3)
    assert torch.allclose(seen, expected, rtol=1e-9)


def test_a_plan_of_one_position_is_not_taken_for_several() -> None:
    torch.manual_seed(0)
    model = fastif.TorchModel(TimeFirst().double(), loss="cross_entropy")
    for positions in (1, 3, 1):
        seen, expected = time_first_scores(model, positions)
        assert torch.allclose(seen, expected, rtol=1e-9)
