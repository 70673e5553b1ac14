"""TrainingRecipe: how models are trained again, every knob checked when it is made. Knows no model and no data."""

import contextlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from fastif.errors import ConfigurationError, ConvergenceError

Optimizer = Literal["adamw", "sgd"]
Decay = Literal["matrices", "all"]
Schedule = Literal["linear", "constant"]


@dataclass(frozen=True)
class TrainingRecipe:
    r"""How a model is trained.

    The rate of step $t$ of $T$ is $r \min(t / w, (T - t) / (T - w))$, where $w$ is `warm_up` of $T$, with the schedule
    "linear", and $r$ with "constant". Gradients longer than `clip` are shortened to it.

    Args:
        epochs: passes over the training set that the schedule is made for.
        batch_size: examples of one step.
        learning_rate: r.
        weight_decay: of AdamW, apart from the gradient; of SGD, c of c/2 ||theta||^2 in the objective.
        optimizer: "adamw", or "sgd" with `momentum`.
        momentum: of SGD.
        schedule: of the rate.
        warm_up: share of the steps in which the rate rises.
        clip: the longest gradient; None cuts none.
        decay: what weight decay is on: parameters with two dimensions or more ("matrices"), or all.
        stop_after: take so many epochs of the schedule and no more; None takes all.

    >>> [TrainingRecipe(warm_up=0.5).rate(step, 4) / 5e-5 for step in range(4)]
    [0.5, 1.0, 1.0, 0.5]
    """

    epochs: int = 3
    batch_size: int = 32
    learning_rate: float = 5e-5
    weight_decay: float = 0.01
    optimizer: Optimizer = "adamw"
    momentum: float = 0.0
    schedule: Schedule = "linear"
    warm_up: float = 0.06
    clip: float | None = 1.0
    decay: Decay = "matrices"
    stop_after: int | None = None

    def __post_init__(self) -> None:
        stop_after = self.epochs if self.stop_after is None else self.stop_after
        for name, value in (("epochs", self.epochs), ("batch_size", self.batch_size), ("stop_after", stop_after)):
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
                raise ConfigurationError(f"{name} must be a whole number of at least 1, not {value!r}.")
        clip = 1.0 if self.clip is None else self.clip
        for name, number in (("learning_rate", self.learning_rate), ("clip", clip)):
            if not _number(number) or not number > 0:
                raise ConfigurationError(f"{name} must be a number above 0, not {number!r}.")
        if not _number(self.weight_decay) or self.weight_decay < 0:
            raise ConfigurationError(f"weight_decay must be 0 or more, not {self.weight_decay!r}.")
        for name in ("momentum", "warm_up"):
            if not _number(getattr(self, name)) or not 0 <= getattr(self, name) < 1:
                raise ConfigurationError(f"{name} must be 0 or more and below 1, not {getattr(self, name)!r}.")
        for name, allowed in (("optimizer", Optimizer), ("schedule", Schedule), ("decay", Decay)):
            if getattr(self, name) not in get_args(allowed):
                raise ConfigurationError(
                    f"{name} must be one of {', '.join(get_args(allowed))}, not {getattr(self, name)!r}."
                )

    @property
    def passes(self) -> int:
        """How many epochs are taken."""
        return min(self.epochs, self.stop_after or self.epochs)

    def steps(self, examples: int) -> int:
        """Return how many steps the schedule is made for."""
        return self.epochs * -(-examples // self.batch_size)

    def rate(self, step: int, steps: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        if self.schedule == "constant":
            return self.learning_rate
        rising = math.ceil(self.warm_up * steps)
        if step < rising:
            return self.learning_rate * (step + 1) / rising
        return self.learning_rate * (steps - step) / (steps - rising)

    def make_optimizer(self, stack: Mapping[str, Tensor]) -> torch.optim.Optimizer:
        """Return torch's optimizer of a stack of models.

        It acts on each number alone, so that it trains each model of the stack as it would train that model by itself.
        """
        decayed = [tensor for tensor in stack.values() if self.decay == "all" or tensor.ndim > 2]  # models come first
        others = [tensor for tensor in stack.values() if not any(tensor is each for each in decayed)]
        groups: list[dict[str, Any]] = [
            {"params": decayed, "weight_decay": self.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        groups = [group for group in groups if group["params"]]
        if self.optimizer == "adamw":
            return torch.optim.AdamW(groups, lr=0.0)
        return torch.optim.SGD(groups, lr=0.0, momentum=self.momentum)

    def in_words(self) -> str:
        """Return the recipe on one line.

        >>> TrainingRecipe(optimizer="sgd", stop_after=2).in_words()
        'SGD, 2 of 3 epochs, batches of 32, learning rate 5e-05, weight decay 0.01'
        """
        passes = f"{self.passes} of {self.epochs}" if self.passes < self.epochs else f"{self.epochs}"
        name = "AdamW" if self.optimizer == "adamw" else "SGD"
        return (
            f"{name}, {passes} epochs, batches of {self.batch_size}, learning rate {self.learning_rate:g}, weight "
            f"decay {self.weight_decay:g}"
        )


@contextlib.contextmanager
def stepping(where: str, rate: float) -> Iterator[None]:
    """Take a step of an optimizer, and say what it means if the rate is no number that weights can hold."""
    try:
        yield
    except RuntimeError as error:
        if "overflow" not in str(error):
            raise
        raise ConvergenceError(
            f"the training diverged: in {where} a step at a learning rate of {rate:.2g} is larger than any number that "
            "the weights can hold. Lower the learning rate (--learning-rate); 5e-5 is usual."
        ) from error


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
