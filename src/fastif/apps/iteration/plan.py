"""Plan: the knobs of the paper's iteration, checked when it is made, and the draws that follow from its seed.

Knows numbers and names, and neither models nor data.
"""

import math
from dataclasses import asdict, dataclass
from numbers import Integral
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from fastif.candidates.nearest import By
from fastif.errors import ConfigurationError
from fastif.solvers.sampling import generator

Kind = Literal["helpful", "harmful", "random", "anchors"]
Effect = Literal["finetune-step", "retrain"]
Update = Literal["gradient", "newton"]
CurvatureAt = Literal["each-step", "start"]
KINDS: tuple[Kind, ...] = get_args(Kind)
RATES: dict[Update, float] = {"gradient": 1e-4, "newton": 1.0}
ANCHORS, RANDOM = 1, 2  # what is drawn, as a part of the key of the draw


@dataclass(frozen=True)
class Plan:
    r"""How the model is changed. Unless given otherwise, it is the setting of the paper but for `nearest`.

    Args:
        steps: how many are taken, each with anchors of its own.
        anchors: drawn anew for each step; all of them where there are no more.
        examples: that a step is taken on, the first of the ranking.
        update: "gradient": $\theta - \eta \bar g$, one step of plain gradient descent on the mean loss of the chosen
            examples; "newton": $\theta - \eta (H + \lambda I)^{-1} \bar g$.
        learning_rate: $\eta$; unless given $10^{-4}$ for a gradient step (the paper's), 1 for a Newton step. A Newton
            step at rate $\eta$ gives the chosen examples together $\eta$ times the weight of the whole training set; at
            (examples / training examples) it does what adding them to it once more would do.
        effect: what ranks the examples. "finetune-step": what one gradient step on an example would change now,
            $-\bar g_a^\top g_z$. "retrain": what having trained on it more would,
            $-\bar g_a^\top (H + \lambda I)^{-1} g_z$; that is also what a Newton step changes. Unless given, the one
            that belongs to the update.
        curvature: weights change with every step, and H with them. "each-step" takes H where the model is;
            "start" keeps that of the model as it was given, which spares finding its spectrum again. $\lambda$ is found
            once, at the start, and stays.
        nearest: rank only so many examples, those nearest to the mean features of the anchors, as in the paper (1000
            there); None ranks all. Features are those of the model as it was given, as in the authors' code.
        nearest_by: what is near: "features", or the gradient of the last linear layer ("head-gradient"), as in
            `fastif.Nearest`.
        repeats: of everything, with other draws. All kinds share the anchors of a repeat, so that they can be paired.
        seed: of all draws.
    """

    steps: int = 10
    anchors: int = 10
    examples: int = 10
    update: Update = "gradient"
    learning_rate: float | None = None
    effect: Effect | None = None
    curvature: CurvatureAt = "each-step"
    nearest: int | None = None
    nearest_by: By = "features"
    repeats: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        least = {"steps": 1, "anchors": 1, "examples": 1, "nearest": 1, "repeats": 1, "seed": 0}
        for name, smallest in least.items():
            value = getattr(self, name)
            if name == "nearest" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, Integral) or value < smallest:
                raise ConfigurationError(f"{name} must be a whole number of at least {smallest}, not {value!r}.")
        allowed = {
            "update": get_args(Update),
            "curvature": get_args(CurvatureAt),
            "effect": (None, *get_args(Effect)),
            "nearest_by": get_args(By),
        }
        for name, names in allowed.items():
            if getattr(self, name) not in names:
                words = ", ".join(each for each in names if each)
                raise ConfigurationError(f"{name} must be one of {words}, not {getattr(self, name)!r}.")
        rate = self.learning_rate
        if rate is not None and (
            isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < math.inf
        ):
            raise ConfigurationError(f"learning_rate must be a number above 0, not {rate!r}.")

    @property
    def rate(self) -> float:
        """The learning rate that is used."""
        return RATES[self.update] if self.learning_rate is None else float(self.learning_rate)

    @property
    def ranked_by(self) -> Effect:
        """The effect that is used."""
        return self.effect or ("retrain" if self.update == "newton" else "finetune-step")

    @property
    def needs_curvature(self) -> bool:
        """Whether H is looked at."""
        return self.update == "newton" or self.ranked_by == "retrain"

    def draw_anchors(self, total: int, *, repeat: int, step: int) -> Tensor:
        """Return the numbers of the anchors of a step, drawn without replacement."""
        return self._drawn(total, self.anchors, ANCHORS, repeat, step)

    def draw_random(self, total: int, *, repeat: int, step: int) -> Tensor:
        """Return the numbers of the examples that chance chooses for a step."""
        return self._drawn(total, self.examples, RANDOM, repeat, step)

    def _drawn(self, total: int, count: int, *key: int) -> Tensor:
        return torch.randperm(total, generator=generator(self.seed, *key))[:count]

    def as_json(self) -> dict[str, Any]:
        """Return the knobs as they are used."""
        return {**asdict(self), "learning_rate": self.rate, "effect": self.ranked_by}
