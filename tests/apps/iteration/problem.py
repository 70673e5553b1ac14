"""A classifier with a shortcut, and the sets that correct it; the same as in the tests of the demo's correction."""

from typing import Any

import torch
from torch import Tensor, nn

import fastif
from fastif.apps.iteration import Iteration, Plan, Sets
from tests.apps.test_correction import GUARD, SLICES, TEST, TRAIN, pairs

ANCHORS = pairs(40, [row < 30 for row in range(40)], 11)
HELD_OUT = pairs(25, [row < 18 for row in range(25)], 12)
NAMES = ["weight"]


def losses(outputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs, targets, reduction="none")


def sliced_test() -> fastif.Examples:
    return fastif.Examples(TEST, slices=SLICES)


def iteration(module: nn.Module, **changes: Any) -> Iteration:
    knobs = {"steps": 4, "anchors": 6, "examples": 5, "learning_rate": 0.5, "repeats": 2, **changes.pop("plan", {})}
    sets = {
        "pool": TRAIN,
        "anchors": ANCHORS,
        "watched": {"test": sliced_test(), "original": GUARD},
        "held_out": HELD_OUT,
        **changes.pop("sets", {}),
    }
    model = fastif.TorchModel(module, loss="cross_entropy")
    return Iteration(model, Sets(**sets), plan=Plan(**knobs), **changes)


def moved(module: nn.Module, weight: Tensor) -> nn.Module:
    """A module of the same kind with other weights."""
    other = nn.Linear(module.in_features, module.out_features, bias=False).double()
    with torch.no_grad():
        other.weight.copy_(weight)
    return other


def rows(data: tuple[Tensor, Tensor], ids: Tensor) -> tuple[Tensor, Tensor]:
    return data[0][ids], data[1][ids]
