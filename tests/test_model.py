"""A wrapped module gives what the module gives in eval mode, and is left exactly as it was."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import fastif
from fastif.derivatives import gradients
from fastif.errors import ConfigurationError, LossError, ModelError, NonFiniteError
from fastif.losses import NamedLoss, negative_margin
from tests import oracles
from tests.problems import CASE_NAMES, CORE_NAMES, case, model_of, relative_error


class State:
    """Everything of a module, and of torch, that must not change."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.tensors = {name: (id(tensor), tensor.clone(), tensor.requires_grad) for name, tensor in self._tensors()}
        self.modes = [part.training for part in module.modules()]
        self.hooks = [copy.copy(part._forward_hooks) for part in module.modules()]
        self.random = torch.get_rng_state()
        self.switches = self._switches()

    def _tensors(self) -> list[tuple[str, Tensor]]:
        return [
            *self.module.named_parameters(remove_duplicate=False),
            *self.module.named_buffers(remove_duplicate=False),
        ]

    @staticmethod
    def _switches() -> tuple[Any, ...]:
        return (
            torch.backends.mha.get_fastpath_enabled(),
            torch.backends.mkldnn.enabled,
            torch.backends.cudnn.enabled,
            torch.backends.cuda.flash_sdp_enabled(),
            torch.is_grad_enabled(),
        )

    def assert_unchanged(self) -> None:
        now = dict(self._tensors())
        assert list(now) == list(self.tensors)
        for name, (identity, value, requires_grad) in self.tensors.items():
            assert id(now[name]) == identity, name
            assert torch.equal(now[name], value), name
            assert now[name].requires_grad == requires_grad, name
            assert now[name].grad is None, name
        assert [part.training for part in self.module.modules()] == self.modes
        assert [part._forward_hooks for part in self.module.modules()] == self.hooks
        assert torch.equal(torch.get_rng_state(), self.random)
        assert self._switches() == self.switches


@pytest.mark.parametrize("curvature", ["gauss-newton", "hessian"])
@pytest.mark.parametrize("name", [*CORE_NAMES, "tied_weights"])
def test_nothing_of_the_module_changes(name: str, curvature: str) -> None:
    it = case(name)
    first = next(it.module.parameters())
    first.requires_grad_(False)
    handle = next(it.module.children(), it.module).register_forward_hook(lambda *_: None)
    before = State(it.module)
    try:
        model = fastif.TorchModel(it.module, loss=it.loss, trainable=it.trainable or ".")
        explainer = fastif.Explainer(model, it.train, curvature=curvature, solver=fastif.ConjugateGradient())
        explainer.explain(it.queries, top=2)
        explainer.self_influence()
        before.assert_unchanged()
    finally:
        handle.remove()
        first.requires_grad_(True)


class Stubborn(nn.Module):
    """Writes to a buffer, draws random numbers and fails when asked to, in eval mode as well."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.dropout = nn.Linear(2, 2), nn.Dropout()
        self.register_buffer("calls", torch.zeros(()))
        self.fails_after = 10**9
        self.seen: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.seen.append(1)
        torch.rand(())
        if len(self.seen) > self.fails_after:
            raise RuntimeError("out of order")
        result: Tensor = self.dropout(self.linear(x))
        return result


def test_a_module_that_writes_to_its_buffers_writes_to_nobodys() -> None:
    module, data = Stubborn(), (torch.randn(5, 2), torch.tensor([0, 1, 0, 1, 0]))
    before = State(module)
    fastif.Explainer(fastif.TorchModel(module, loss="cross_entropy"), data).scores(data)
    before.assert_unchanged()


@pytest.mark.parametrize("calls", range(8))
def test_nothing_changes_when_the_module_fails(calls: int) -> None:
    module, data = Stubborn(), (torch.randn(5, 2), torch.tensor([0, 1, 0, 1, 0]))
    module.fails_after = calls
    before = State(module)
    with pytest.raises((RuntimeError, fastif.FastifError), match="out of order"):
        fastif.Explainer(fastif.TorchModel(module, loss="cross_entropy"), data).scores(data)
    before.assert_unchanged()


def test_attributes_that_a_module_sets_meanwhile_are_taken_back() -> None:
    class Remembering(nn.Linear):
        cache: Tensor | None = None
        calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.cache = super().forward(x)
            self.calls += 1
            return self.cache

    module, data = Remembering(2, 2), (torch.randn(5, 2), torch.tensor([0, 1, 0, 1, 0]))
    before = dict(module.__dict__)
    fastif.Explainer(fastif.TorchModel(module, loss="cross_entropy"), data).scores(data)
    assert module.__dict__ == before
    assert module.cache is None
    assert module.calls == 0


def test_work_inside_no_grad_inference_mode_and_autocast_gives_the_same_numbers() -> None:
    it = case("transformer", torch.float32)
    expected = fastif.Explainer(model_of(it), it.train).scores(it.queries).values
    for context in (torch.no_grad(), torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16)):
        with context:
            data = tuple(column.clone() for column in it.train)
            seen = fastif.Explainer(model_of(it), data).scores(it.queries).values
            own = fastif.Explainer(model_of(it), data).self_influence()
        assert torch.equal(seen, expected)
        assert (own > 0).all()


@pytest.mark.parametrize("name", CASE_NAMES)
def test_outputs_are_those_of_eval_mode(name: str) -> None:
    it = case(name)
    model = model_of(it)
    batch = model.place(fastif.Examples(it.train).batch(range(24)))
    module = copy.deepcopy(it.module).eval()
    assert it.module.training
    torch.testing.assert_close(model.outputs(model.parameters, batch.inputs), module(*it.train[:-1]))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.mix, self.head = nn.Embedding(6, 3), nn.Linear(3, 3), nn.Linear(3, 6, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: Tensor) -> Tensor:
        result: Tensor = self.head(self.mix(self.embed(ids)).mean(dim=1))
        return result


def test_tied_parameters_count_once_under_any_of_their_names() -> None:
    for choice in (None, "embed", r"head\.weight", ".", lambda name, _: name.startswith("head")):
        model = fastif.TorchModel(Tied(), loss="cross_entropy", trainable=choice)
        assert "embed.weight" in model.parameters
        assert "head.weight" not in model.parameters


def test_parameters_are_chosen_by_gradient_pattern_or_predicate() -> None:
    module = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    module[0].requires_grad_(False)

    def names(trainable: Any) -> list[str]:
        return list(fastif.TorchModel(module, loss="cross_entropy", trainable=trainable).parameters)

    assert names(None) == ["1.weight", "1.bias"]
    assert names(r"^0\.") == ["0.weight", "0.bias"]
    assert names("bias") == ["0.bias", "1.bias"]
    assert names(lambda name, parameter: parameter.ndim == 2) == ["0.weight", "1.weight"]
    assert "influence through 8 of 17 parameters" in repr(fastif.TorchModel(module, loss="cross_entropy"))


def test_tensor_tuple_and_dictionary_data_give_the_same_scores() -> None:
    class ByName(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, pixels: Tensor) -> Any:
            return type("Output", (), {"logits": self.inner(pixels)})()

    torch.manual_seed(0)
    inner = nn.Linear(3, 2)
    x, y = torch.randn(9, 3), torch.randint(0, 2, (9,))
    by_name = {"pixels": x, "labels": y}
    rows = [(x[i], int(y[i])) for i in range(9)]
    forms: list[tuple[nn.Module, Any]] = [
        (inner, (x, y)),
        (inner, (x.numpy(), y.numpy())),
        (inner, torch.utils.data.TensorDataset(x, y)),
        (inner, rows),
        (inner, fastif.Examples((x.double(), y.int()))),
        (ByName(inner), by_name),
        (ByName(inner), [{"pixels": a, "labels": b} for a, b in rows]),
    ]
    scores = [
        fastif.Explainer(fastif.TorchModel(module, loss="cross_entropy"), data).scores(data).values
        for module, data in forms
    ]
    for other in scores[1:]:
        torch.testing.assert_close(other, scores[0])


def test_a_single_tensor_is_input_and_target_at_once() -> None:
    module = nn.Sequential(nn.Linear(4, 2), nn.Tanh(), nn.Linear(2, 4))
    x = torch.randn(8, 4)
    model = fastif.TorchModel(module, loss="mse_loss")
    torch.testing.assert_close(
        fastif.Explainer(model, x).scores(x[:2]).values,
        fastif.Explainer(model, (x, x)).scores((x[:2], x[:2])).values,
    )


def test_half_precision_weights_are_computed_with_in_float32() -> None:
    torch.manual_seed(0)
    half = nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.Linear(3, 2)).bfloat16()
    data = (torch.randn(10, 4), torch.randint(0, 2, (10,)))
    scores = fastif.Explainer(fastif.TorchModel(half, loss="cross_entropy"), data).scores(data).values
    full = fastif.Explainer(fastif.TorchModel(copy.deepcopy(half).float(), loss="cross_entropy"), data)
    assert scores.dtype == torch.float32
    assert torch.equal(scores, full.scores(data).values)
    assert next(half.parameters()).dtype == torch.bfloat16


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_wrappers_around_the_module_are_seen_through() -> None:
    inner = nn.Linear(3, 2)
    for wrapped in (nn.DataParallel(inner), torch.compile(inner)):
        assert list(fastif.TorchModel(wrapped, loss="cross_entropy").parameters) == ["weight", "bias"]


def test_a_recurrent_layer_in_float32_needs_no_fused_kernel() -> None:
    class Recurrent(nn.Module):
        def __init__(self, kind: type[nn.RNNBase]) -> None:
            super().__init__()
            self.recurrent, self.head = kind(3, 4, batch_first=True), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.head(self.recurrent(x)[0][:, -1])
            return result

    data = (torch.randn(6, 5, 3), torch.randint(0, 2, (6,)))
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        module = Recurrent(kind)
        model = fastif.TorchModel(module, loss="cross_entropy")
        batch = model.place(fastif.Examples(data).batch(range(6)))
        block = gradients(model, batch)
        module.eval()
        for row in range(6):
            module.zero_grad()
            F.cross_entropy(module(data[0][row : row + 1]), data[1][row : row + 1]).backward()
            for name, parameter in module.named_parameters():
                torch.testing.assert_close(block[name][row], parameter.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Lazy modules:UserWarning")
def test_a_module_that_cannot_work_says_why() -> None:
    for make, word in (
        (lambda: lambda x: x, "nn.Module"),
        (lambda: torch.jit.trace(nn.Linear(2, 2), torch.zeros(1, 2)), "scripted"),
        (lambda: nn.Sequential(nn.LazyLinear(3)), "Run the module once"),
        (lambda: nn.Linear(2, 2, device="meta"), "weight is on the meta device"),
    ):
        with pytest.raises(ModelError, match=word):
            fastif.TorchModel(make(), loss="cross_entropy")


class Neighbours(nn.Module):
    """A layer of a graph network, whose matrix is a sparse constant."""

    def __init__(self, as_buffer: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lower, self.upper = nn.Linear(5, 5).double(), nn.Linear(5, 3).double()
        matrix = (torch.rand(5, 5) > 0.5).double().to_sparse()
        if as_buffer:
            self.register_buffer("matrix", matrix)
        else:
            self.matrix = matrix

    def forward(self, x: Tensor) -> Tensor:
        return self.upper(torch.sparse.mm(self.matrix, self.lower(x).T).T)


@pytest.mark.parametrize("as_buffer", [True, False])
def test_a_sparse_constant_of_the_module_is_left_alone(as_buffer: bool) -> None:
    module, x, y = Neighbours(as_buffer), torch.randn(20, 5, dtype=torch.float64), torch.arange(20) % 3
    explainer = fastif.Explainer(fastif.TorchModel(module, loss="cross_entropy"), (x, y), damping=0.1)
    seen = explainer.scores((x[:2], y[:2])).values
    names = oracles.parameter_names(module)
    gradients = oracles.per_example_gradients(module, names, "cross_entropy", (x, y))
    matrix = oracles.dense_ggn(module, names, "cross_entropy", (x, y))
    assert relative_error(seen, oracles.influence(gradients[:2], matrix, gradients, 0.1)) < 1e-6


def test_a_sparse_constant_that_was_changed_is_seen() -> None:
    module, x, y = Neighbours(as_buffer=True), torch.randn(20, 5, dtype=torch.float64), torch.arange(20) % 3
    explainer = fastif.Explainer(fastif.TorchModel(module, loss="cross_entropy"), (x, y), damping=0.1)
    explainer.scores((x[:2], y[:2]))
    module.matrix = module.matrix * 2
    with pytest.raises(ModelError, match="seen in matrix"):
        explainer.scores((x[:2], y[:2]))


def test_weights_that_were_made_in_inference_mode_can_be_differentiated() -> None:
    torch.manual_seed(0)
    with torch.inference_mode():
        made = nn.Linear(4, 3)
    same = nn.Linear(4, 3)
    same.load_state_dict({name: tensor.clone() for name, tensor in made.state_dict().items()})
    x, y = torch.randn(9, 4), torch.arange(9) % 3
    one, other = (
        fastif.Explainer(fastif.TorchModel(module, loss="cross_entropy"), (x, y), damping=0.1).scores((x, y)).values
        for module in (made, same)
    )
    assert torch.equal(one, other)


def test_a_loss_without_a_derivative_is_refused() -> None:
    model = fastif.TorchModel(nn.Linear(2, 2), loss=lambda outputs, targets: outputs.argmax(dim=1) != targets)
    with pytest.raises(LossError, match="bool numbers, which have no derivative"):
        fastif.Explainer(model, (torch.zeros(3, 2), torch.zeros(3).long()))


def test_outputs_that_are_no_tensor_are_refused() -> None:
    class Pair(nn.Linear):
        def forward(self, x: Tensor) -> Any:
            return super().forward(x), x

    with pytest.raises(ModelError, match="tuple"):
        fastif.Explainer(
            fastif.TorchModel(Pair(2, 2), loss="cross_entropy"), (torch.zeros(3, 2), torch.zeros(3).long())
        )


@pytest.mark.parametrize(
    ("error", "words"), [(KeyError("tok"), "'tok'"), (AssertionError("3d"), "3d"), (AttributeError("foo"), "foo")]
)
def test_a_module_or_loss_that_fails_at_once_says_what_it_was_given(error: Exception, words: str) -> None:
    class Failing(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            raise error

    def failing(outputs: Tensor, targets: Tensor) -> Tensor:
        raise error

    data, kind = (torch.zeros(3, 2), torch.zeros(3).long()), type(error).__name__
    with pytest.raises(ModelError, match=rf"forward failed on .* of train with {kind}: {words}.*input 0 \(3, 2\)"):
        fastif.Explainer(fastif.TorchModel(Failing(2, 2), loss=nn.MSELoss(reduction="none")), data)
    with pytest.raises(LossError, match=rf"the loss failing failed on .* with {kind}: {words}"):
        fastif.Explainer(fastif.TorchModel(nn.Linear(2, 2), loss=failing), data)


def test_a_model_at_other_weights_is_only_asked_for_finite_losses() -> None:
    seen: list[int] = []

    class Counting(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(len(x))
            return super().forward(x)

    model = fastif.TorchModel(Counting(2, 2), loss="cross_entropy")
    batch = fastif.Examples((torch.randn(9, 2), torch.zeros(9).long())).batch(range(8))
    model.check(batch)
    assert seen.count(1) >= 2
    seen.clear()
    model.at({name: tensor + 1 for name, tensor in model.parameters.items()}).check(batch)
    assert seen == [8]
    with pytest.raises(NonFiniteError):
        model.at({name: tensor * torch.inf for name, tensor in model.parameters.items()}).check(batch)


def test_examples_that_mix_in_a_batch_are_refused() -> None:
    class Centred(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x - x.mean(dim=0))

    data = (torch.randn(9, 2), torch.zeros(9).long())
    with pytest.raises(ModelError, match="beside it in the batch"):
        fastif.Explainer(fastif.TorchModel(Centred(2, 2), loss="cross_entropy"), data)
    mixing = fastif.TorchModel(Centred(2, 2), loss="cross_entropy")
    with pytest.raises(ModelError, match="beside it in the batch"):  # never checked, and so not known to be right
        fastif.Explainer(mixing.at(mixing.parameters), data)
    with pytest.raises(ModelError, match="the batch-norm 1 keeps no running statistics"):
        fastif.TorchModel(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3, track_running_stats=False)), loss="mse_loss")


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "poisson_nll_loss"])
def test_named_losses_are_torchs_own_averaged_over_all_but_the_batch(name: str) -> None:
    outputs, targets = torch.randn(5, 3, 2), torch.rand(5, 3, 2)
    expected = getattr(F, name)(outputs, targets, reduction="none").mean(dim=(1, 2))
    torch.testing.assert_close(NamedLoss(name)(outputs, targets), expected)
    flat = NamedLoss(name)(outputs[:, 0, :1], targets[:, 0, 0])
    torch.testing.assert_close(flat, getattr(F, name)(outputs[:, 0, 0], targets[:, 0, 0], reduction="none"))


def test_cross_entropy_over_positions_is_averaged() -> None:
    outputs, targets = torch.randn(4, 3, 7), torch.randint(0, 3, (4, 7))
    expected = F.cross_entropy(outputs, targets, reduction="none").mean(dim=1)
    torch.testing.assert_close(NamedLoss("cross_entropy")(outputs, targets), expected)


def test_losses_of_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(LossError, match="one shape"):
        NamedLoss("mse_loss")(torch.zeros(4, 3), torch.zeros(4))
    with pytest.raises(ConfigurationError, match="mse_loss"):
        fastif.TorchModel(nn.Linear(1, 1), loss="mean_square")
    with pytest.raises(ConfigurationError, match="function"):
        fastif.TorchModel(nn.Linear(1, 1), loss=3)  # type: ignore[arg-type]
    with pytest.raises(LossError, match="margin"):
        negative_margin(torch.zeros(4, 3), torch.zeros(4, 3))


def test_margins_of_two_and_of_many_classes() -> None:
    logits, labels = torch.randn(6), torch.randint(0, 2, (6,))
    both = torch.stack([torch.zeros(6), logits], dim=1)
    torch.testing.assert_close(negative_margin(logits, labels), negative_margin(both, labels))
    many, classes = torch.randn(6, 4), torch.randint(0, 4, (6,))
    p = many.softmax(dim=1).gather(1, classes[:, None]).squeeze(1)
    torch.testing.assert_close(negative_margin(many, classes), -(p / (1 - p)).log())
