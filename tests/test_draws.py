"""Modules that draw random numbers in eval mode are refused; those that draw and do not use it are not."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import fastif
from fastif.errors import ModelError

X, Y = torch.randn(40, 5, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 3


class Drawing(nn.Module):
    def __init__(self, between: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.lower, self.upper, self.between = nn.Linear(5, 4), nn.Linear(4, 3), between

    def forward(self, x: Tensor) -> Tensor:
        return self.upper(self.between(self.lower(x)))


def dropout(states: Tensor) -> Tensor:
    return F.dropout(states, 0.05, training=True)


def noise(states: Tensor) -> Tensor:
    return states * torch.rand(4)


def left_out_at_random(states: Tensor) -> Tensor:
    return states.tanh() if torch.rand(()) < 0.5 else states


def unused(states: Tensor) -> Tensor:
    torch.rand(3)
    return states


def explainer(between: Callable[[Tensor], Tensor], examples: int = 40) -> fastif.Explainer:
    torch.manual_seed(1)
    model = fastif.TorchModel(Drawing(between), loss="cross_entropy")
    return fastif.Explainer(model, (X[:examples], Y[:examples]), damping=0.1)


@pytest.mark.parametrize("examples", [1, 40])
@pytest.mark.parametrize("between", [dropout, noise, left_out_at_random])
def test_outputs_that_change_with_the_seed_are_refused(between: Callable[[Tensor], Tensor], examples: int) -> None:
    with pytest.raises(ModelError, match="with the seed of torch's random numbers"):
        explainer(between, examples)


def test_the_state_of_the_generator_is_the_users() -> None:
    torch.manual_seed(1)
    Drawing(unused)
    before = torch.get_rng_state()
    explainer(unused).scores((X[:2], Y[:2]))
    assert torch.equal(torch.get_rng_state(), before)
