"""Recipe: every knob of a fine-tuning, checked when it is made. Knows no model and no data."""

import math
from dataclasses import dataclass
from typing import Any, Literal

from fastif.errors import ConfigurationError


@dataclass(frozen=True)
class Recipe:
    r"""How a classifier is fine-tuned.

    AdamW on the mean loss of a batch, with the rate $r_t = r \min(t / w, (T - t) / (T - w))$ at step $t$ of $T$, where
    $w$ is `warm_up` of $T$; gradients longer than `clip` are shortened to it; decay is on matrices only, so that biases
    and normalisations are left alone. There is no dropout, so that what is minimised is the very loss that influence
    functions differentiate.

    Args:
        epochs: passes over the training set, at most.
        batch_size: texts of one step.
        learning_rate: r; "auto" tries a few on a part of the data, and lowers the best for the longer run.
        weight_decay: of AdamW, on parameters with two dimensions or more.
        patience: stop after so many epochs in a row that were no better on the dev set than the best.
        dev_share: share of the training set that is kept aside as a dev set where none is given; 0 for none.
        trainable: the parameters to train: "all", or a regular expression over their names.
        freeze_layers: instead, the embeddings and so many layers from below are left as they are; all but the last two
            layers unless given.
        regression: fit numbers. None: where all labels are numbers and some of them are not whole.
        max_length: tokens at which a text is cut; what the base allows unless given.
        limit: train on so many rows, drawn by the seed.
        seed: of the head, the order of the texts, and the rows that are kept aside.
        device: where to compute.
        double: compute in float64.

    >>> Recipe(epochs=2).learning_rate
    5e-05
    """

    epochs: int = 3
    batch_size: int = 32
    learning_rate: float | Literal["auto"] = 5e-5
    weight_decay: float = 0.01
    patience: int = 2
    dev_share: float = 0.1
    trainable: str | None = None
    freeze_layers: int | None = None
    regression: bool | None = None
    max_length: int | None = None
    limit: int | None = None
    seed: int = 0
    device: str = "cpu"
    double: bool = False
    warm_up: float = 0.06
    clip: float = 1.0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "patience", "limit"):
            _whole(name, getattr(self, name), 1)
        _whole("max_length", self.max_length, 2)
        _whole("freeze_layers", self.freeze_layers, 0)
        _whole("seed", self.seed, 0)
        if self.seed >= 2**63:
            raise ConfigurationError(f"the seed must be below 2**63, as torch's generators take it, not {self.seed}.")
        if self.learning_rate != "auto" and not _is_number(self.learning_rate, above=0):
            raise ConfigurationError(f"the learning rate must be 'auto' or above 0, not {self.learning_rate!r}.")
        if not _is_number(self.weight_decay, least=0):
            raise ConfigurationError(f"the weight decay must be 0 or more, not {self.weight_decay!r}.")
        if not _is_number(self.clip, above=0):
            raise ConfigurationError(f"clip must be above 0, not {self.clip!r}.")
        for name in ("dev_share", "warm_up"):
            if not _is_number(getattr(self, name), least=0) or getattr(self, name) >= 1:
                raise ConfigurationError(f"{name} must be 0 or more and below 1, not {getattr(self, name)!r}.")
        if self.trainable is not None and self.freeze_layers is not None:
            raise ConfigurationError("trainable and freeze_layers both choose what is trained: give one of them.")

    def rate(self, step: int, steps: int, highest: float) -> float:
        """Return the learning rate of a step, counted from 0: a linear rise to the highest, and a linear fall to 0.

        >>> [Recipe(warm_up=0.5).rate(step, 4, 1.0) for step in range(4)]
        [0.5, 1.0, 1.0, 0.5]
        """
        rising = math.ceil(self.warm_up * steps)
        if step < rising:
            return highest * (step + 1) / rising
        return highest * (steps - step) / (steps - rising)


def _whole(name: str, value: Any, least: int) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
        raise ConfigurationError(f"{name} must be a whole number of at least {least}, not {value!r}.")


def _is_number(value: Any, *, above: float = -math.inf, least: float = -math.inf) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return is_number and value > above and value >= least
