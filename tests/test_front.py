"""Fronts of sequences that give anything but a row for each example."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fastif
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
