"""Fronts of sequences: those that give anything but a row for each example, and what their states depend on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fastif
from fastif.front import FrozenFront
from fastif.prefix import PrefixCache
from tests import oracles
from tests.problems import relative_error

N, FRAMES = 12, 6


class WithInput(nn.Linear):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x), x


class OfFirst(nn.Linear):
    def forward(self, given: Any) -> Tensor:
        return super().forward(given[0])


class Named(nn.Linear):
    def forward(self, x: Tensor) -> Any:
        return {"features": super().forward(x)}


class OfNamed(nn.Linear):
    def forward(self, given: Any) -> Tensor:
        return super().forward(given["features"])


class FramesFirst(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(0, 1)


class LastFrame(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[-1]


class FramesIntoBatch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(0, 1)


class FramesOutOfBatch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.unflatten(0, (-1, FRAMES)).mean(dim=1)


FRONTS: dict[str, tuple[nn.Sequential, str, tuple[int, ...]]] = {
    "tuple": (nn.Sequential(WithInput(4, 5), OfFirst(5, 3)), "^1", (4,)),
    "dictionary": (nn.Sequential(Named(4, 5), OfNamed(5, 3)), "^1", (4,)),
    "frames first": (nn.Sequential(nn.Linear(4, 5), FramesFirst(), nn.Linear(5, 3), LastFrame()), "^2", (FRAMES, 4)),
    "frames in the batch": (
        nn.Sequential(FramesIntoBatch(), nn.Linear(4, 5), nn.Linear(5, 3), FramesOutOfBatch()),
        "^2",
        (FRAMES, 4),
    ),
}


@pytest.mark.parametrize("name", list(FRONTS))
def test_a_front_without_a_row_for_each_example_runs_each_time(name: str) -> None:
    module, trainable, shape = FRONTS[name]
    module = module.double()
    x = torch.randn(N, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    data = (x, torch.arange(N) % 3)
    model = fastif.TorchModel(module, loss="cross_entropy", trainable=trainable)
    seen = fastif.Explainer(model, data, damping=0.1, batch_size=5).scores((x[:2], data[1][:2])).values
    assert model.prefix is None
    names = oracles.parameter_names(module, trainable)
    gradients = oracles.per_example_gradients(module, names, "cross_entropy", data)
    matrix = oracles.dense_ggn(module, names, "cross_entropy", data)
    assert relative_error(seen, oracles.influence(gradients[:2], matrix, gradients, 0.1)) < 1e-6


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x.mul_(2.0))  # a hidden state: plain torch trains this


@pytest.mark.parametrize("solver", [fastif.Exact(), fastif.Identity()], ids=["exact", "identity"])
def test_stored_states_stay_as_they_are_where_the_next_part_writes_in_place(solver: Any) -> None:
    torch.manual_seed(5)
    module = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), InPlace(), nn.Tanh(), nn.Linear(4, 3)).double()
    module[0].requires_grad_(False)
    x = torch.randn(N, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    data = (x, torch.arange(N) % 3)

    def numbers(**options: Any) -> list[Tensor]:
        model = fastif.TorchModel(module, loss="cross_entropy")
        explainer = fastif.Explainer(model, data, solver=solver, damping=0.05, **options)
        assert model.prefix is not None
        scores = explainer.scores((x[:2], data[1][:2])).values
        return [scores, explainer.self_influence(), explainer.left_out()["losses_without"]]

    for seen, expected in zip(numbers(), numbers(prefix_cache=None), strict=True):
        assert relative_error(seen, expected) < 1e-12


class Shifted(nn.Module):
    """Adds whatever number it finds in its setting."""

    def __init__(self, setting: Any, number: Callable[[Any], Any]) -> None:
        super().__init__()
        self.setting, self.number = setting, number

    def forward(self, x: Tensor) -> Tensor:
        return x + self.number(self.setting)


class Held:
    def __init__(self, number: float) -> None:
        self.number = number


SETTINGS: dict[str, tuple[Any, Any, Callable[[Any], Any]]] = {
    "list": ([0.0, [1.0]], [0.0, [3.0]], lambda given: given[1][0]),
    "dictionary": ({"by": 1.0}, {"by": 3.0}, lambda given: given["by"]),
    "set": ({1.0}, {3.0}, max),
    "tensor": (torch.ones(4), torch.full((4,), 3.0), lambda given: given),
    "array": (np.ones(4, np.float32), np.full(4, 3.0, np.float32), lambda given: torch.from_numpy(given)),
    "object": (Held(1.0), Held(3.0), lambda given: given.number),
    "function": (lambda: 1.0, lambda: 3.0, lambda given: given()),
    "integer": (1, 3, lambda given: given),
}
SEEN_BY_STATES = ("object", "function")  # and not in a name


def shifted(setting: Any, number: Callable[[Any], Any]) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(Shifted(setting, number), nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


@pytest.mark.parametrize("name", list(SETTINGS))
def test_stored_states_are_not_used_where_a_setting_is_another(name: str, tmp_path: Path) -> None:
    one, other, number = SETTINGS[name]
    x = torch.randn(40, 4, generator=torch.Generator().manual_seed(1))
    y, cache = torch.arange(40) % 3, PrefixCache(directory=tmp_path)

    def scores(setting: Any, kept: PrefixCache | None) -> Tensor:
        model = fastif.TorchModel(shifted(setting, number), loss="cross_entropy", trainable="^3")
        return fastif.Explainer(model, (x, y), damping=0.05, prefix_cache=kept).scores((x[:3], y[:3])).values

    before = scores(one, cache)
    made = {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    assert relative_error(scores(other, cache), scores(other, None)) < 1e-5
    assert len(list(tmp_path.iterdir())) == (1 if name in SEEN_BY_STATES else 2)
    if name not in SEEN_BY_STATES:
        torch.testing.assert_close(scores(one, cache), before)
        assert all(file.stat().st_mtime_ns == time for file, time in made.items())  # found again


def test_settings_are_known_by_what_they_hold() -> None:
    def known(setting: Any) -> str:
        front = FrozenFront.of(shifted(setting, float), ["3.weight", "3.bias"])
        assert front is not None
        return front.settings()

    for name, (one, other, _number) in SETTINGS.items():
        assert known(one) == known(one)
        assert (known(one) == known(other)) == (name in SEEN_BY_STATES)
    assert known(Held(1.0)) == known(Held(1.0))  # and no address in memory
    assert known({"a", "b", "c"}) == known({"c", "b", "a"})
