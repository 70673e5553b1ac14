"""A module is called as in eval mode, whatever it is made of, and is left as it was."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fastif
from tests import oracles
from tests.oracles import parameter_names
from tests.problems import relative_error
from tests.test_model import State

DAMPING = 0.05
ROWS, LABELS = torch.randn(18, 4, generator=torch.Generator().manual_seed(1)).double(), torch.arange(18) % 3
DATA, QUERIES = (ROWS, LABELS), (ROWS[:3], LABELS[:3])


def require_right(module: nn.Module, reference: nn.Module | None = None, data: tuple[Tensor, Tensor] = DATA) -> None:
    """Explain with one model after another, each solver in its turn, and compare with the dense answer."""
    queries = (data[0][:3], data[1][:3])
    before = State(module)
    same = module if reference is None else reference
    names = parameter_names(same)
    matrix = oracles.dense_ggn(same, names, "cross_entropy", data)
    left, right = (
        oracles.per_example_gradients(same, names, "cross_entropy", examples) for examples in (queries, data)
    )
    expected = -left @ torch.linalg.solve(matrix + DAMPING * torch.eye(len(matrix)).double(), right.T)
    for solver in (fastif.Exact(), fastif.ConjugateGradient(tolerance=1e-11), fastif.Exact("primal")):
        model = fastif.TorchModel(module, loss="cross_entropy")
        found = fastif.Explainer(model, data, damping=DAMPING, solver=solver, batch_size=7).scores(queries).values
        assert relative_error(found, expected) < 1e-9
        before.assert_unchanged()


# --- modules at two places -------------------------------------------------------------------------------------------


class Unrolled(nn.Module):
    """One cell under three names."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.Linear(4, 4), nn.Linear(4, 3)
        self.steps = nn.ModuleList([self.cell, self.cell])

    def forward(self, x: Tensor) -> Tensor:
        for step in self.steps:
            x = torch.tanh(step(x))
        result: Tensor = self.head(x)
        return result


def sequence_with_one_layer_twice() -> nn.Module:
    cell = nn.Linear(4, 4)
    return nn.Sequential(cell, nn.Tanh(), cell, nn.Tanh(), nn.Linear(4, 3))


def sequence_with_one_norm_twice() -> nn.Module:
    norm = nn.BatchNorm1d(4)
    module = nn.Sequential(nn.Linear(4, 4), norm, nn.Tanh(), nn.Linear(4, 4), norm, nn.Linear(4, 3))
    module(torch.randn(30, 4))  # its statistics are no longer those that it began with
    return module


@pytest.mark.parametrize("make", [Unrolled, sequence_with_one_layer_twice, sequence_with_one_norm_twice])
def test_a_part_at_two_places_keeps_its_parameters_and_has_right_scores(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    require_right(make().double())


def test_a_frozen_part_at_two_places_keeps_its_parameters() -> None:
    module = Unrolled().double()
    module.cell.requires_grad_(False)
    before = State(module)
    for _ in range(2):
        model = fastif.TorchModel(module, loss="cross_entropy")
        fastif.Explainer(model, DATA, damping=DAMPING).scores(QUERIES)
        assert list(model.parameters) == ["head.weight", "head.bias"]
        before.assert_unchanged()


def test_an_optimizer_still_trains_a_part_at_two_places() -> None:
    module = Unrolled().double()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    fastif.Explainer(fastif.TorchModel(module, loss="cross_entropy"), DATA, damping=DAMPING).scores(QUERIES)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    nn.functional.cross_entropy(module(ROWS), LABELS).backward()
    optimizer.step()
    assert not any(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())


# --- what modules set ------------------------------------------------------------------------------------------------


def test_a_buffer_that_was_empty_is_empty_again() -> None:
    class Filling(nn.Linear):
        def __init__(self) -> None:
            super().__init__(4, 3)
            self.register_buffer("last", None)

        def forward(self, x: Tensor) -> Tensor:
            self.last = x
            return super().forward(x)

    module = Filling().double()
    require_right(module, copy.deepcopy(module))
    assert module.last is None


def test_a_part_that_was_put_in_the_place_of_another_is_taken_out_again() -> None:
    class Switching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.head = nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            before = self.first
            self.first = nn.Sequential(before)
            self.later = nn.Tanh()
            result: Tensor = self.head(self.later(before(x)))
            return result

    torch.manual_seed(0)
    module = Switching().double()
    parts, names = list(module.modules()), list(module._modules)
    model = fastif.TorchModel(module, loss="cross_entropy")
    fastif.Explainer(model, DATA, damping=DAMPING).scores(QUERIES)
    assert list(module.modules()) == parts
    assert list(module._modules) == names


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
@pytest.mark.parametrize("training", [True, False])
def test_a_scripted_part_keeps_its_mode(training: bool) -> None:
    def make() -> nn.Sequential:
        torch.manual_seed(0)
        return nn.Sequential(nn.Sequential(nn.Linear(4, 5), nn.Dropout(), nn.Tanh()), nn.Linear(5, 3)).double()

    module, reference = make(), make()
    module[0] = torch.jit.script(module[0])
    require_right(module.train(training), reference)


# --- compiled parts --------------------------------------------------------------------------------------------------


class Parts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(torch.tanh(self.first(x)))
        return result


def compile_a_part(module: Parts, backend: Any) -> None:
    module.first = torch.compile(module.first, backend=backend)


def compile_in_place(module: Parts, backend: Any) -> None:
    module.compile(backend=backend)


def compile_a_function(module: Parts, backend: Any) -> None:
    module.first.forward = torch.compile(module.first.forward, backend=backend)


@pytest.mark.parametrize("compiled", [compile_a_part, compile_in_place, compile_a_function])
@pytest.mark.parametrize("used", [True, False])
def test_what_is_compiled_runs_as_it_is_written(compiled: Callable[[Parts, Any], None], used: bool) -> None:
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph

    torch.manual_seed(0)
    module = Parts().double()
    reference = copy.deepcopy(module)
    compiled(module, backend)
    try:
        if used:
            module(ROWS)
        before = len(graphs)
        require_right(module, reference)
        assert len(graphs) == before
        module(ROWS)
        assert graphs  # for its owner it is still compiled
    finally:
        torch.compiler.reset()
