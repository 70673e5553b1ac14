"""Who computes in less than the weights have is told so, once, and what to change."""

import warnings

import pytest
import torch
from torch import Tensor, nn

import fastif
from fastif.errors import PrecisionWarning

ROWS, LABELS = torch.randn(20, 4, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 3


class Narrow(nn.Module):
    """Computes a part of what it gives, or all of it, in bfloat16."""

    def __init__(self, *, in_the_end: bool) -> None:
        super().__init__()
        self.first, self.last, self.in_the_end = nn.Linear(4, 5), nn.Linear(5, 3), in_the_end

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            states = torch.tanh(self.first(x))
            result: Tensor = self.last(states)
        if not self.in_the_end:
            result = self.last(states.float())
        return result


class Cast(nn.Linear):
    """Gives its outputs in float16."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).half()


def check_twice(module: nn.Module) -> None:
    model = fastif.TorchModel(module, loss="cross_entropy")
    batch = model.place(fastif.Examples((ROWS, LABELS)).batch(range(8)))
    model.check(batch)
    model.check(batch)
    model.at(model.parameters).check(batch)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (Narrow(in_the_end=True), "computes in bfloat16 within a torch.autocast of its own, though"),
        (Narrow(in_the_end=False), "computes in bfloat16 within a torch.autocast of its own, though"),
        (Cast(4, 3), "gives outputs in float16, though it is evaluated in float32"),
    ],
    ids=["autocast", "autocast in part", "cast"],
)
def test_a_module_that_rounds_is_told_of_once(module: nn.Module, words: str) -> None:
    with pytest.warns(PrecisionWarning, match=words) as told:
        check_twice(module)
    assert len(told) == 1


def test_what_changes_nothing_is_not_told() -> None:
    """Autocast leaves float64 as it is, and the autocast of a caller is kept away."""

    class Disabled(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=False):
                return super().forward(x)

    with warnings.catch_warnings():
        warnings.simplefilter("error", PrecisionWarning)
        check_twice(Narrow(in_the_end=True).double())
        check_twice(Disabled(4, 3))
        check_twice(nn.Linear(4, 3).bfloat16())
        with torch.autocast("cpu", dtype=torch.bfloat16):
            check_twice(nn.Linear(4, 3))


def test_an_explainer_tells_of_it() -> None:
    model = fastif.TorchModel(Narrow(in_the_end=True), loss="cross_entropy")
    with pytest.warns(PrecisionWarning, match="Take the autocast out of its forward"):
        fastif.Explainer(model, (ROWS, LABELS), damping=0.1)
