"""Products with curvature, for one vector and for a block, against the dense oracle."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

import fastif
from fastif import jacobian, vectors
from fastif.curvature import CurvatureOperator
from fastif.derivatives import (
    directional_derivatives,
    gauss_newton_product,
    gradients,
    grouped_product,
    hessian_product,
    vectors_at_once,
)
from fastif.errors import ConfigurationError, ModelError
from fastif.factored import can_be_factored
from tests import oracles, problems
from tests.problems import CASE_NAMES, CURVATURES, as_block, case, matrix, model_of, operator_of, relative_error

NOT_FACTORED = (
    "lstm",
    "embedding",
    "shared_parameter",
    "tied_weights",
    "temperature",
)  # not captured, or looked up in a table


@pytest.mark.parametrize("width", [1, 3, 40])
@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize("name", CASE_NAMES)
def test_products_equal_the_dense_matrix(name: str, curvature: str, width: int) -> None:
    operator = operator_of(name, curvature)
    rows = torch.randn(width, operator.size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    block, expected = as_block(rows, operator), rows @ matrix(name, curvature)
    assert relative_error(vectors.flatten(operator(block)), expected) < 1e-9
    if operator.way(width) != "vectors":
        assert relative_error(one_by_one(operator, block), expected) < 1e-9


def one_by_one(operator: CurvatureOperator, block: vectors.Block) -> Tensor:
    """The mean product by general derivatives, whatever the operator would choose."""
    product = gauss_newton_product if operator.kind == "gauss-newton" else hessian_product
    parts = [vectors.flatten(product(operator.model, batch, block)) for batch in operator.batches()]
    return torch.stack(parts).sum(dim=0) / operator.examples


def test_rows_are_chosen_for_many_vectors_few_outputs_and_many_positions() -> None:
    def chosen(name: str) -> list[str]:
        operator = operator_of(name)
        return [operator.way(width) for width in (1, 2, 40)]

    assert chosen("transformer")[2] == "rows"  # two classes bend in one direction; five positions
    assert chosen("cnn_batchnorm")[2] == "rows"
    assert "rows" not in chosen("multi_label")  # four outputs bend in four directions, one position each
    assert chosen("lstm") == ["vectors"] * 3  # cannot be captured
    assert operator_of("transformer", "hessian").way(40) == "vectors"


@pytest.mark.parametrize("name", CASE_NAMES)
def test_products_from_factors_equal_the_dense_matrix(name: str) -> None:
    operator = operator_of(name)
    plan = operator.jacobian.route.plan
    if plan is None or not can_be_factored(plan):
        assert name in NOT_FACTORED
        return
    rows = torch.randn(6, operator.size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    block = as_block(rows, operator)
    seen = operator._mean("factors", block)
    assert relative_error(vectors.flatten(seen), rows @ matrix(name, "gauss-newton")) < 1e-9
    batch = operator.batch(torch.arange(6))
    for groups in (2, 3, 6):
        grouped = operator.grouped(batch, block, groups)
        expected = grouped_product("gauss-newton", operator.model, batch, block, groups)
        assert relative_error(vectors.flatten(grouped), vectors.flatten(expected)) < 1e-9


def test_rows_that_do_not_fit_are_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = operator_of("transformer")
    monkeypatch.setattr(jacobian, "BYTES", 3 * 8 * operator.size)
    assert operator.way(40) != "rows"


@pytest.mark.parametrize("curvature", CURVATURES)
def test_damping_and_weight_decay_are_added_to_the_diagonal(curvature: str) -> None:
    operator = operator_of("mlp_dropout", curvature, weight_decay=0.5)
    rows = torch.randn(2, operator.size, dtype=torch.float64)
    expected = rows @ matrix("mlp_dropout", curvature) + 0.75 * rows
    assert relative_error(vectors.flatten(operator(as_block(rows, operator), damping=0.25)), expected) < 1e-9


@pytest.mark.parametrize("curvature", CURVATURES)
def test_a_subsample_is_the_mean_over_its_own_examples_and_stays_frozen(curvature: str) -> None:
    it = case("mlp_dropout")
    operator = operator_of("mlp_dropout", curvature).subsample(9, seed=1)
    again = operator_of("mlp_dropout", curvature).subsample(9, seed=1)
    rows = torch.randn(1, operator.size, dtype=torch.float64)
    chosen = torch.cat([batch.ids for batch in operator.batches()])
    assert len(chosen.unique()) == operator.examples == 9
    dense = oracles.dense_ggn if curvature == "gauss-newton" else oracles.dense_hessian
    part = dense(it.module, it.names, it.loss, tuple(column[chosen] for column in it.train))
    assert relative_error(vectors.flatten(operator(as_block(rows, operator))), rows @ part) < 1e-9
    for _ in range(2):
        assert torch.equal(torch.cat([batch.ids for batch in again.batches()]), chosen)


def test_a_subsample_as_large_as_the_data_is_all_of_it() -> None:
    operator = operator_of("mlp_dropout")
    assert operator.subsample(24, seed=0) is operator
    assert operator.subsample(None, seed=0) is operator
    with pytest.raises(ConfigurationError, match="subsample"):
        operator.subsample(0, seed=0)


def test_data_too_large_to_stay_in_place_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastif.curvature.RESIDENT_BYTES", 100)
    operator = operator_of("mlp_dropout")
    rows = torch.randn(1, operator.size, dtype=torch.float64)
    for _ in range(2):
        seen = vectors.flatten(operator(as_block(rows, operator)))
        assert relative_error(seen, rows @ matrix("mlp_dropout", "gauss-newton")) < 1e-9


@pytest.mark.parametrize("name", CASE_NAMES)
def test_gradients_equal_the_backward_loop(name: str) -> None:
    it = case(name)
    model = model_of(it)
    batch = model.place(fastif.Examples(it.train).batch(range(24)))
    seen = vectors.flatten(gradients(model, batch))
    assert relative_error(seen, problems.gradients(name, "train")) < 1e-10


class Exotic(torch.autograd.Function):
    """x^3 with a backward pass but no forward mode, as hand-written operations have."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x**3

    @staticmethod
    def setup_context(ctx: object, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)  # type: ignore[attr-defined]

    @staticmethod
    def backward(ctx: object, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return 3 * x**2 * grad


class OldStyle(torch.autograd.Function):
    """x^3 in the form that `torch.func` cannot transform at all."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)  # type: ignore[attr-defined]
        return x**3

    @staticmethod
    def backward(ctx: object, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return 3 * x**2 * grad


class Once(OldStyle):
    """x^3 with a backward pass that cannot be differentiated again."""

    @staticmethod
    @once_differentiable
    def backward(ctx: object, grad: Tensor) -> Tensor:
        return OldStyle.backward(ctx, grad)


class Cube(nn.Module):
    def __init__(self, operation: type[torch.autograd.Function]) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(2, 3).double(), nn.Linear(3, 2).double()
        self.operation = operation

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(self.operation.apply(self.first(x)))
        return result


@pytest.mark.parametrize("operation", [Exotic, OldStyle])
@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize("width", [1, 3])
def test_operations_without_forward_mode_are_differentiated_backwards(
    curvature: str, width: int, operation: type[torch.autograd.Function]
) -> None:
    torch.manual_seed(0)
    module = Cube(operation)
    x, y = torch.randn(6, 2, dtype=torch.float64), torch.randint(0, 2, (6,))
    names = [name for name, _ in module.named_parameters()]
    model = fastif.TorchModel(module, loss="cross_entropy")
    operator = CurvatureOperator(model, fastif.Examples((x, y)), kind=curvature)
    dense = oracles.dense_ggn if curvature == "gauss-newton" else oracles.dense_hessian
    rows = torch.randn(width, operator.size, dtype=torch.float64)
    block = as_block(rows, operator)
    expected = rows @ dense(module, names, "cross_entropy", (x, y))
    assert relative_error(vectors.flatten(operator(block)), expected) < 1e-9
    assert relative_error(one_by_one(operator, block), expected) < 1e-9
    batch = model.place(fastif.Examples((x, y)).batch(range(6)))
    slopes = oracles.per_example_gradients(module, names, "cross_entropy", (x, y))
    assert relative_error(directional_derivatives(model, batch, block).detach(), rows @ slopes.T) < 1e-9
    assert relative_error(vectors.flatten(gradients(model, batch)), slopes) < 1e-9


def test_an_operation_that_can_be_differentiated_once_only_is_refused() -> None:
    model = fastif.TorchModel(Cube(Once), loss="cross_entropy")
    operator = CurvatureOperator(model, fastif.Examples((torch.randn(3, 2), torch.tensor([0, 1, 0]))))
    block = vectors.random(model.parameters, 2, seed=0)
    with pytest.raises(ModelError, match="once_differentiable"):
        gauss_newton_product(model, next(operator.batches()), block)
    with pytest.raises(ModelError, match="once_differentiable"):
        operator.check_symmetry()
    with pytest.raises(ModelError, match="plain torch functions"):
        hessian_product(model, next(operator.batches()), block)


def test_few_tangents_go_through_a_large_model_together() -> None:
    it = case("mlp_dropout")
    model = model_of(it)
    batch = model.place(fastif.Examples(it.train).batch(range(24)))
    assert vectors_at_once(model, batch) == 32
    model.check(batch)
    assert 24 * 8 < model.bytes_per_example < 10_000
    model.bytes_per_example = 2**29 // (24 * 3)
    assert vectors_at_once(model, batch) == 3
    model.bytes_per_example = 2**40
    assert vectors_at_once(model, batch) == 1


class Sentence(nn.Module):
    """A padded sequence, its embedding with every switch that makes torch's derivatives disagree."""

    def __init__(self, **switches: Any) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 3, padding_idx=0, **switches)
        self.rest = nn.Sequential(nn.Tanh(), nn.Linear(3, 2))
        with torch.no_grad():
            self.embed.weight[0] = 0.3  # a padding row that is not zero is seen, but not learned

    def forward(self, ids: Tensor) -> Tensor:
        result: Tensor = self.rest(self.embed(ids).mean(dim=1))
        return result


@pytest.mark.parametrize("switches", [{}, {"max_norm": 0.5}], ids=["padding", "max_norm"])
@pytest.mark.parametrize("curvature", CURVATURES)
def test_padding_is_left_out_of_every_derivative(curvature: str, switches: dict[str, Any]) -> None:
    """As torch's backward pass does and its forward mode does not: the oracle knows the backward pass alone."""
    torch.manual_seed(0)
    module = Sentence(**switches).double()
    ids, y = torch.randint(0, 7, (12, 5)), torch.randint(0, 2, (12,))
    before = module.embed.weight.clone()
    model = fastif.TorchModel(module, loss="cross_entropy", trainable="embed|rest")
    operator = CurvatureOperator(model, fastif.Examples((ids, y)), kind=curvature, batch_size=5)
    rows = torch.randn(3, operator.size, dtype=torch.float64)
    seen = vectors.flatten(operator(as_block(rows, operator)))
    assert torch.equal(module.embed.weight, before)
    dense = written_out_ggn if curvature == "gauss-newton" else written_out_hessian
    assert relative_error(seen, rows @ dense(module, ids, y)) < 1e-9
    operator.check_symmetry()


def written_out_loss(module: Sentence, flat: Tensor, ids: Tensor, y: Tensor, *, outputs: bool = False) -> Tensor:
    """The same function without an embedding layer: padding and renormalisation written as constants."""
    weight, linear, bias = flat[:21].reshape(7, 3), flat[21:27].reshape(2, 3), flat[27:]
    constant = weight.detach()
    table = torch.cat([constant[:1], weight[1:]])
    if module.embed.max_norm is not None:
        size = constant.norm(dim=1, keepdim=True)
        table = table * torch.where(size > module.embed.max_norm, module.embed.max_norm / (size + 1e-7), 1.0)
    logits = torch.tanh(table[ids].mean(dim=1)) @ linear.T + bias
    return logits if outputs else nn.functional.cross_entropy(logits, y)


def written_out_hessian(module: Sentence, ids: Tensor, y: Tensor) -> Tensor:
    flat = torch.cat([parameter.detach().flatten() for parameter in module.parameters()])
    return torch.autograd.functional.hessian(lambda point: written_out_loss(module, point, ids, y), flat)


def written_out_ggn(module: Sentence, ids: Tensor, y: Tensor) -> Tensor:
    flat = torch.cat([parameter.detach().flatten() for parameter in module.parameters()])
    jacobian = torch.autograd.functional.jacobian(lambda p: written_out_loss(module, p, ids, y, outputs=True), flat)
    p = written_out_loss(module, flat, ids, y, outputs=True).softmax(dim=1)
    bend = torch.diag_embed(p) - p[:, :, None] * p[:, None]
    return torch.einsum("nap,nab,nbq->pq", jacobian, bend, jacobian) / len(y)


def test_a_wrong_derivative_of_torch_is_noticed() -> None:
    """Torch's second derivative through weight_norm is wrong; that of the Gauss-Newton matrix is not needed."""
    torch.manual_seed(0)
    linear = nn.utils.parametrizations.weight_norm(nn.Linear(3, 4))
    module = nn.Sequential(linear, nn.Tanh(), nn.Linear(4, 2)).double()
    data = (torch.randn(20, 3, dtype=torch.float64), torch.randint(0, 2, (20,)))
    model = fastif.TorchModel(module, loss="cross_entropy")
    fastif.Explainer(model, data).scores(data)
    with pytest.raises(ModelError, match="not symmetric"):
        fastif.Explainer(model, data, curvature="hessian", damping=1.0).scores(data)


class Hooked(nn.Module):
    """A perceptron whose gradients are scaled half-way by a hook, as some do against exploding ones."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(16, 16), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.inner(x).relu()
        if hidden.requires_grad:
            hidden.register_hook(lambda slope: slope / 2)
        outputs: Tensor = self.head(hidden)
        return outputs


@pytest.mark.parametrize("scale", [1.0, 255.0])
def test_a_hook_that_changes_gradients_is_noticed(scale: float) -> None:
    torch.manual_seed(0)
    data = (torch.rand(200, 16) * scale, torch.randint(0, 3, (200,)))
    with pytest.raises(ModelError, match="hooks that change gradients") as caught:
        fastif.Explainer(fastif.TorchModel(Hooked(), loss="cross_entropy"), data, damping=1.0).scores(data)
    assert "Try curvature" not in str(caught.value)  # it is Gauss-Newton's already


def test_a_hook_that_changes_gradients_is_noticed_without_curvature() -> None:
    torch.manual_seed(0)
    data = (torch.rand(50, 16), torch.randint(0, 3, (50,)))
    explainer = fastif.Explainer(fastif.TorchModel(Hooked(), loss="cross_entropy"), data, solver=fastif.Identity())
    for work in (lambda: explainer.scores(data), explainer.self_influence):
        with pytest.raises(ModelError, match="hooks that change gradients"):
            work()


@pytest.mark.parametrize("sure", [1.0, 30.0, 100.0, 1e4])
def test_gradients_of_a_sure_softmax_are_not_taken_for_wrong(sure: float) -> None:
    torch.manual_seed(0)
    x, module = torch.randn(50, 8), nn.Linear(8, 3)
    with torch.no_grad():
        module.weight.mul_(sure)
    y = module(x).argmax(dim=1)
    CurvatureOperator(fastif.TorchModel(module, loss="cross_entropy"), fastif.Examples((x, y))).check_gradients()


def test_rounding_is_not_taken_for_a_wrong_derivative() -> None:
    """A softmax that is sure of itself, on raw inputs, leaves nothing of H but the rounding of its terms."""
    for seed in (17, 32):
        torch.manual_seed(seed)
        x, y = torch.rand(200, 16) * 255, torch.randint(0, 3, (200,))
        module = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
        CurvatureOperator(fastif.TorchModel(module, loss="cross_entropy"), fastif.Examples((x, y))).check_symmetry()
    torch.manual_seed(5)
    x, y = torch.randint(0, 256, (200, 64)).double(), torch.randint(0, 3, (200,))
    module = nn.Linear(64, 3).double()
    CurvatureOperator(fastif.TorchModel(module, loss="cross_entropy"), fastif.Examples((x, y))).check_symmetry()


def test_packed_sequences_are_differentiated_backwards() -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.recurrent, self.head = nn.GRU(2, 3, batch_first=True), nn.Linear(3, 2)

        def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
            result: Tensor = self.head(self.recurrent(packed)[1][0])
            return result

    torch.manual_seed(0)
    module = Packed().double()
    data = (torch.randn(6, 4, 2, dtype=torch.float64), torch.tensor([4, 2, 1, 3, 4, 2]), torch.randint(0, 2, (6,)))
    names = [name for name, _ in module.named_parameters()]
    for kind, dense in (("gauss-newton", oracles.dense_ggn), ("hessian", oracles.dense_hessian)):
        explainer = fastif.Explainer(fastif.TorchModel(module, loss="cross_entropy"), data, damping=0.5, curvature=kind)
        seen = explainer.scores(data).values
        slopes = oracles.per_example_gradients(module, names, "cross_entropy", data)
        expected = oracles.influence(slopes, dense(module, names, "cross_entropy", data), slopes, 0.5)
        assert relative_error(seen, expected) < 1e-6


def test_attention_with_a_mask_and_the_fused_kernel() -> None:
    """`scaled_dot_product_attention` picks a kernel without second derivatives unless told otherwise."""

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.head = nn.Linear(4, 12), nn.Linear(4, 3)

        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            q, k, v = self.qkv(x).chunk(3, dim=-1)
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, :].bool())
            result: Tensor = self.head(mixed.mean(dim=1))
            return result

    torch.manual_seed(0)
    module = Attention().double()
    x, mask = torch.randn(8, 5, 4, dtype=torch.float64), torch.ones(8, 5, dtype=torch.int64)
    mask[:, 3:] = torch.randint(0, 2, (8, 2))
    data = (x, mask, torch.randint(0, 3, (8,)))
    names = [name for name, _ in module.named_parameters()]
    for kind, dense in (("gauss-newton", oracles.dense_ggn), ("hessian", oracles.dense_hessian)):
        operator = CurvatureOperator(
            fastif.TorchModel(module, loss="cross_entropy"), fastif.Examples(data), kind=kind, batch_size=3
        )
        rows = torch.randn(4, operator.size, dtype=torch.float64)
        expected = rows @ dense(module, names, "cross_entropy", data)
        assert relative_error(vectors.flatten(operator(as_block(rows, operator))), expected) < 1e-9
