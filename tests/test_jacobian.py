"""Gradients of each example and Jacobian rows: from captured layers where that works, and the same as elsewhere."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fastif
from fastif import derivatives, jacobian, vectors
from fastif.batch import Batch
from fastif.capture import Route
from fastif.curvature import CurvatureOperator
from fastif.derivatives import gauss_newton_product, output_hessians
from fastif.jacobian import Jacobian, product_by_rows
from fastif.losses import resolve_measure
from tests import oracles, problems
from tests.problems import CASE_NAMES, case, matrix, model_of, relative_error

GENERAL = Route(None, "not wanted here")


def jacobian_of(name: str, *, captured: bool = True) -> tuple[Jacobian, Batch]:
    it = case(name)
    model = model_of(it)
    batch = model.place(fastif.Examples(it.train).batch(range(24)))
    found = Jacobian(model, batch)
    if not captured:
        found.route = GENERAL
    return found, batch


@pytest.mark.parametrize("captured", [True, False], ids=["captured", "general"])
@pytest.mark.parametrize("name", CASE_NAMES)
def test_rows_make_the_gauss_newton_matrix(name: str, captured: bool) -> None:
    found, batch = jacobian_of(name, captured=captured)
    total = torch.zeros_like(matrix(name, "gauss-newton"))
    for rows, signs in found.signed_rows(batch):
        flat = vectors.flatten(rows)
        total += flat.T @ (signs[:, None] * flat)
    assert relative_error(total / 24, matrix(name, "gauss-newton")) < 1e-10
    block = vectors.random(found.model.parameters, 5, seed=0)
    expected = vectors.flatten(gauss_newton_product(found.model, batch, block))
    assert relative_error(vectors.flatten(product_by_rows(found, batch, block)), expected) < 1e-10


@pytest.mark.parametrize("name", CASE_NAMES)
def test_gradients_equal_the_backward_loop(name: str) -> None:
    found, batch = jacobian_of(name)
    assert (found.route.plan is None) == (name in ("lstm", "shared_parameter", "temperature"))
    seen = found.gradients(batch)
    assert {key: tensor.shape[1:] for key, tensor in seen.items()} == {
        key: tensor.shape for key, tensor in found.model.parameters.items()
    }
    assert relative_error(vectors.flatten(seen), problems.gradients(name, "train")) < 1e-10


def test_gradients_of_another_measure() -> None:
    found, batch = jacobian_of("transformer")
    margin = resolve_measure("margin", found.model.losses)
    it = case("transformer")
    expected = oracles.per_example_gradients(it.module, it.names, margin, it.train)
    assert relative_error(vectors.flatten(found.gradients(batch, margin)), expected) < 1e-10


def test_positions_are_an_average_over_parameters() -> None:
    assert jacobian_of("mlp_dropout")[0].positions == 1.0
    assert jacobian_of("lstm")[0].positions == 1.0
    # five tokens, but for the head, which sees their mean: 10 of 146 parameters
    assert jacobian_of("transformer")[0].positions == pytest.approx((136 * 5 + 10) / 146)


@pytest.mark.parametrize("captured", [True, False], ids=["captured", "general"])
def test_a_small_budget_cuts_the_batch(captured: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    found, batch = jacobian_of("conv1d", captured=captured)
    block = vectors.random(found.model.parameters, 3, seed=0)
    expected = product_by_rows(found, batch, block)
    monkeypatch.setattr(jacobian, "BYTES", 5 * 8 * vectors.size(found.model.parameters))
    assert max(len(signs) for _, signs in found.signed_rows(batch)) == 5
    seen = product_by_rows(found, batch, block)
    assert relative_error(vectors.flatten(seen), vectors.flatten(expected)) < 1e-12


class Masked(nn.Module):
    """An encoder that looks at its mask before it uses it, as Hugging Face's do: vmap over examples is refused."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(9, 4)
        self.mix, self.head = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        states = self.mix(self.embed(ids)).tanh()
        if not bool(mask.all()):
            states = states * mask[..., None]
        result: Tensor = self.head(states.mean(dim=1))
        return result


def test_what_vmap_refuses_is_captured_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    columns = (torch.randint(9, (12, 5)), (torch.rand(12, 5) > 0.3).long(), torch.randint(2, (12,)))
    model = fastif.TorchModel(Masked().double(), loss="cross_entropy")
    batch = model.place(fastif.Examples(columns).batch(range(12)))
    found = Jacobian(model, batch)
    assert found.route.note == "captured 5 of 5 parameters"
    expected = derivatives.gradients(model, batch)

    def refuse(*arguments: Any) -> None:
        raise AssertionError("captured gradients need no general derivative")

    monkeypatch.setattr(derivatives, "gradients", refuse)
    assert relative_error(vectors.flatten(found.gradients(batch)), vectors.flatten(expected)) < 1e-12


class Sometimes(nn.Module):
    """Two layers, or one for batches with a certain number of examples."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.a(x) if x.shape[0] == 5 else self.b(self.a(x))
        return result


def test_a_batch_that_runs_otherwise_goes_the_general_way() -> None:
    torch.manual_seed(0)
    model = fastif.TorchModel(Sometimes().double(), loss="cross_entropy")
    data = fastif.Examples((torch.randn(9, 3), torch.randint(3, (9,))))
    found = Jacobian(model, model.place(data.batch(range(4))))
    assert found.route.plan is not None
    batch = model.place(data.batch(range(5)))
    alone = vectors.flatten(derivatives.gradients(model, batch))  # examples one by one take two layers
    torch.testing.assert_close(vectors.flatten(found.gradients(batch)), alone)
    block = vectors.random(model.parameters, 2, seed=0)
    seen, outputs = product_by_rows(found, batch, block), model.outputs(model.parameters, batch.inputs)
    assert outputs.shape == (5, 3)
    assert all(torch.isfinite(tensor).all() for tensor in seen.values())


class Twisted(torch.autograd.Function):
    """The identity, with a derivative that depends on how many examples there are."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.examples = len(x)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Tensor:  # type: ignore[override]
        return slope * ctx.examples


def test_a_plan_that_gives_other_gradients_is_not_used() -> None:
    class Module(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = Twisted.apply(self.a(x))  # type: ignore[no-untyped-call]
            return result

    model = fastif.TorchModel(Module().double(), loss="cross_entropy")
    batch = model.place(fastif.Examples((torch.randn(6, 3), torch.randint(3, (6,)))).batch(range(6)))
    route = Jacobian(model, batch).route
    assert route.plan is None
    assert "differs from a general derivative" in route.note


def test_layouts_are_found_where_the_first_losses_are_flat() -> None:
    """The plan rests on the slopes of outputs: a hinge that is met has none, and would allow any layout."""

    class Folded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            mixed: Tensor = self.a(x.permute(1, 0, 2).flatten(0, 1)).tanh()
            return mixed.view(4, -1, 3).sum(dim=(0, 2))

    def hinge(outputs: Tensor, targets: Tensor) -> Tensor:
        return (targets - outputs).clamp_min(0).square()

    torch.manual_seed(0)
    targets = torch.tensor([-99.0] * 4 + [9.0] * 4)
    model = fastif.TorchModel(Folded().double(), loss=hinge)
    batch = model.place(fastif.Examples((torch.randn(8, 4, 3), targets)).batch(range(8)))
    found = Jacobian(model, batch)
    assert found.route.plan is not None
    seen, expected = found.gradients(batch), derivatives.gradients(model, batch)
    assert relative_error(vectors.flatten(seen), vectors.flatten(expected)) < 1e-12


def test_a_loss_that_bends_both_ways_has_rows_of_both_signs() -> None:
    torch.manual_seed(0)
    model = fastif.TorchModel(nn.Linear(3, 2).double(), loss=lambda outputs, _: outputs.sin().sum(dim=1))
    data = fastif.Examples((torch.randn(20, 3), torch.zeros(20)))
    operator = CurvatureOperator(model, data)
    batch = next(operator.batches())
    signs = torch.cat([sign for _, sign in operator.jacobian.signed_rows(batch)])
    assert {-1.0, 1.0} <= set(signs.tolist()) <= {-1.0, 0.0, 1.0}
    block = vectors.random(model.parameters, 3, seed=0)
    expected = vectors.flatten(gauss_newton_product(model, batch, block))
    assert relative_error(vectors.flatten(product_by_rows(operator.jacobian, batch, block)), expected) < 1e-12


def policy_gradient(positions: tuple[int, ...] = ()) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    torch.manual_seed(0)
    classes = F.one_hot(torch.randint(0, 3, (20, *positions)), 3).double().movedim(-1, 1)
    advantages = torch.randn(20, 1, *positions, dtype=torch.float64)
    module = nn.Sequential(nn.Linear(5, 3 * max(1, *positions, 1)), nn.Unflatten(1, (3, *positions)))
    return module.double(), (torch.randn(20, 5, dtype=torch.float64), advantages * classes)


@pytest.mark.parametrize("positions", [(), (4,)], ids=["one class each", "one at each position"])
def test_a_softmax_that_bends_downwards_loses_no_row(positions: tuple[int, ...]) -> None:
    """Targets that add up to less than zero, as advantages of a policy gradient do."""
    module, data = policy_gradient(positions)
    names = oracles.parameter_names(module)
    expected = oracles.dense_ggn(module, names, "cross_entropy", data)
    values = torch.linalg.eigvalsh(expected)
    assert values[0] < -0.01 < 0.01 < values[-1]
    model = fastif.TorchModel(module, loss="cross_entropy")
    batch = model.place(fastif.Examples(data).batch(range(20)))
    total = torch.zeros_like(expected)
    for rows, signs in Jacobian(model, batch).signed_rows(batch):
        flat = vectors.flatten(rows)
        total += flat.T @ (signs[:, None] * flat)
    assert relative_error(total / 20, expected) < 1e-10


def test_a_loss_that_does_not_bend_has_no_rows() -> None:
    model = fastif.TorchModel(nn.Linear(3, 2).double(), loss=lambda outputs, _: outputs.sum(dim=1))
    batch = model.place(fastif.Examples((torch.randn(6, 3), torch.zeros(6))).batch(range(6)))
    found = Jacobian(model, batch)
    assert list(found.signed_rows(batch)) == []
    zero = product_by_rows(found, batch, vectors.random(model.parameters, 2, seed=0))
    assert not vectors.flatten(zero).any()


def test_one_or_two_examples() -> None:
    found, batch = jacobian_of("transformer")
    for count in (1, 2):
        some = Jacobian(found.model, batch.rows(0, count))
        expected = vectors.flatten(derivatives.gradients(found.model, batch.rows(0, count)))
        assert relative_error(vectors.flatten(some.gradients(batch.rows(0, count))), expected) < 1e-12
        block = vectors.random(found.model.parameters, 2, seed=0)
        product = vectors.flatten(product_by_rows(some, batch.rows(0, count), block))
        general = vectors.flatten(gauss_newton_product(found.model, batch.rows(0, count), block))
        assert relative_error(product, general) < 1e-10


def test_float32_rows_have_the_accuracy_of_float32() -> None:
    it = case("cnn_batchnorm", torch.float32)
    model = model_of(it)
    operator = CurvatureOperator(model, fastif.Examples(it.train), batch_size=13)
    block = vectors.random(model.parameters, 40, seed=0)
    seen = vectors.flatten(operator(block))
    assert operator.way(40) == "rows"
    expected = vectors.flatten(block).double() @ matrix("cnn_batchnorm", "gauss-newton")
    assert relative_error(seen.double(), expected) < 1e-5


def test_the_second_derivative_of_a_softmax_is_that_of_torch() -> None:
    model = fastif.TorchModel(nn.Linear(2, 4).double(), loss="cross_entropy")
    outputs = torch.tensor([[0.0, 1.0, -2.0, 3.0], [60.0, 0.0, 0.0, -1.0], [1.0, 2.0, 3.0, 4.0]], dtype=torch.float64)
    targets = torch.tensor([1, 0, -100])  # the last has no target, and so no loss
    batch = Batch((torch.zeros(3, 2),), targets, torch.arange(3))
    seen = output_hessians(model, outputs, batch)

    def loss(row: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(row[None], target[None], reduction="none", ignore_index=-100)[0]

    expected = torch.stack(
        [torch.func.hessian(loss)(row, target) for row, target in zip(outputs, targets, strict=True)]
    )
    assert torch.allclose(seen, expected, rtol=1e-12, atol=1e-15)
    assert not seen[2].any()
