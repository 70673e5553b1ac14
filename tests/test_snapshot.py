"""What a module's tensors are known by, and that no explainer goes on with weights that it was not made for."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

import fastif
from fastif.errors import DataError, ModelError
from fastif.snapshot import changed, differing, snapshot

X, Y = torch.randn(40, 4, generator=torch.Generator().manual_seed(1)), torch.arange(40) % 3


def network() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3))


def head(module: nn.Module) -> nn.Linear:
    part = module[3]  # type: ignore[index]
    assert isinstance(part, nn.Linear)
    return part


def explainer_of(module: nn.Module, trainable: str | None = None) -> fastif.Explainer:
    model = fastif.TorchModel(module, loss="cross_entropy", trainable=trainable)
    return fastif.Explainer(model, (X, Y), damping=0.05)


def write(module: nn.Module) -> None:
    with torch.no_grad():
        head(module).weight.mul_(2)


def write_to_data(module: nn.Module) -> None:
    head(module).weight.data.mul_(2)


def swap_rows_of_data(module: nn.Module) -> None:
    head(module).weight.data.copy_(head(module).weight.data.flip(0))


def set_data(module: nn.Module) -> None:
    head(module).weight.data = head(module).weight.data * 2


def replace(module: nn.Module) -> None:
    head(module).weight = nn.Parameter(head(module).weight.detach() * 2)


def load_by_assignment(module: nn.Module) -> None:
    state = {name: tensor * 2 for name, tensor in module.state_dict().items()}
    module.load_state_dict(state, assign=True)


def change_what_is_frozen(module: nn.Module) -> None:
    with torch.no_grad():
        module[0].weight.mul_(3)  # type: ignore[index, operator, union-attr]


def pass_in_train_mode(module: nn.Module) -> None:
    module.train()
    module(X * 3 + 1)


@pytest.mark.parametrize(
    "change",
    [
        write,
        write_to_data,
        swap_rows_of_data,
        set_data,
        replace,
        load_by_assignment,
        change_what_is_frozen,
        pass_in_train_mode,
    ],
)
@pytest.mark.parametrize("trainable", [None, "^3"])
def test_work_after_further_training_is_refused(change: Callable[[nn.Module], None], trainable: str | None) -> None:
    module = network()
    explainer = explainer_of(module, trainable)
    explainer.scores((X[:2], Y[:2]))
    change(module)
    for work in (lambda: explainer.scores((X[:2], Y[:2])), explainer.self_influence, explainer.left_out):
        with pytest.raises(ModelError, match="weights of the model have changed since this explainer was made"):
            work()
    explainer_of(module, trainable).scores((X[:2], Y[:2]))


def test_a_model_that_had_to_copy_weights_is_not_used_after_training() -> None:
    module = network().bfloat16()
    model = fastif.TorchModel(module, loss="cross_entropy")
    explainer = fastif.Explainer(model, (X, Y), damping=0.05)
    write(module)
    with pytest.raises(ModelError, match="have changed since this explainer was made"):
        explainer.scores((X[:2], Y[:2]))
    with pytest.raises(ModelError, match=r"another 3.weight than when this TorchModel was made"):
        fastif.Explainer(model, (X, Y), damping=0.05)


def test_weights_that_are_shared_may_be_trained_between_two_explainers() -> None:
    module = network()
    model = fastif.TorchModel(module, loss="cross_entropy")
    fastif.Explainer(model, (X, Y), damping=0.05).scores((X[:2], Y[:2]))
    write(module)
    seen = fastif.Explainer(model, (X, Y), damping=0.05).scores((X[:2], Y[:2])).values
    torch.testing.assert_close(seen, explainer_of(module).scores((X[:2], Y[:2])).values)


def test_what_changes_no_number_is_let_pass() -> None:
    module = network()
    explainer = explainer_of(module)
    with torch.no_grad():
        module[1].num_batches_tracked.add_(1)  # type: ignore[operator, union-attr]
        module.train()
        copy.deepcopy(module)(X)
    head(module).weight.data = head(module).weight.data.clone()
    explainer.scores((X[:2], Y[:2]))


def test_a_model_at_other_weights_does_not_follow_those_of_the_module() -> None:
    module = network()
    model = fastif.TorchModel(module, loss="cross_entropy", trainable="^3")
    parameters = {name: tensor.clone() for name, tensor in model.parameters.items()}
    fastif.Explainer(model, (X, Y), damping=0.05)
    explainer = fastif.Explainer(model.at(parameters), (X, Y), damping=0.05)
    before = explainer.scores((X[:2], Y[:2])).values
    write(module)
    torch.testing.assert_close(explainer.scores((X[:2], Y[:2])).values, before)
    parameters["3.weight"].mul_(2)
    with pytest.raises(ModelError, match=r"seen in 3.weight"):
        explainer.scores((X[:2], Y[:2]))


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.complex64, torch.int16, torch.uint8, torch.bool]
)
def test_any_changed_number_of_any_kind_of_tensor_is_seen(dtype: torch.dtype) -> None:
    whole = torch.arange(1500).remainder(2).to(dtype)
    for tensor in (whole, whole[1:], whole[:1303], whole.view(30, 50).T, whole[7:8], whole[:0]):
        before = snapshot({}, {"table": tensor})
        assert changed(before, snapshot({}, {"table": tensor.clone()})) == []
        for place in range(0, tensor.numel(), 97):
            other = tensor.contiguous().clone()
            other.view(-1)[place] = other.view(-1)[place] == 0
            assert changed(before, snapshot({}, {"table": other})) == ["table"]


def test_data_that_was_written_to_is_refused() -> None:
    for column in (0, 1):
        data = X.clone(), Y.clone()
        explainer = fastif.Explainer(fastif.TorchModel(network(), loss="cross_entropy"), data, damping=0.05)
        explainer.scores((X[:2], Y[:2]))
        data[column][3] = 1
        with pytest.raises(DataError, match="a tensor of train was written to"):
            explainer.scores((X[:2], Y[:2]))


def test_tensors_that_are_new_or_gone_are_named() -> None:
    one, two = {"a": torch.ones(2), "b": torch.ones(2)}, {"a": torch.ones(2), "c": torch.ones(2)}
    assert changed(snapshot(one, {}), snapshot(two, {})) == ["b", "c"]
    assert differing(one, two) == ["b", "c"]
