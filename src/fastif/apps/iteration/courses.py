"""Courses: what was seen on all walks, as numbers that can be compared pair by pair, and as JSON.

Knows numbers and parts by name; knows neither models nor examples.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor

from fastif.apps.iteration.plan import Kind, Plan
from fastif.apps.iteration.watching import Look, Part
from fastif.errors import ConfigurationError
from fastif.intervals import Interval, paired_interval

Measure = Literal["loss", "accuracy"]
MEASURES: tuple[Measure, ...] = ("loss", "accuracy")
START: Literal["start"] = "start"


@dataclass(frozen=True)
class Course:
    """One walk of `steps` steps.

    Args:
        kind: of the examples that steps were taken on.
        repeat: which draws it is of.
        losses: of each part before and after each step, (steps + 1, parts).
        accuracies: the same.
        held_out: the losses of the held-out anchors, (steps + 1, held-out anchors).
        held_out_right: whether each of them is predicted right.
        chosen: for each step, the examples that it was taken on; of the kind "anchors" these are anchors.
        anchors: for each step, the anchors that were drawn.
    """

    kind: Kind
    repeat: int
    losses: Tensor
    accuracies: Tensor
    held_out: Tensor
    held_out_right: Tensor
    chosen: tuple[Tensor, ...]
    anchors: tuple[Tensor, ...]

    @classmethod
    def of(
        cls, kind: Kind, repeat: int, looks: Sequence[Look], chosen: Sequence[Tensor], anchors: Sequence[Tensor]
    ) -> "Course":
        """Make one of what was seen, the start first."""
        seen = {each.name: torch.stack([getattr(look, each.name) for look in looks]) for each in fields(Look)}
        return cls(kind, repeat, **seen, chosen=tuple(chosen), anchors=tuple(anchors))

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        is_held_out = bool(self.held_out.shape[1])
        return {
            "kind": self.kind,
            "repeat": self.repeat,
            "loss": self.losses.tolist(),
            "accuracy": self.accuracies.tolist(),
            "held_out_loss": self.held_out.mean(dim=1).tolist() if is_held_out else None,
            "held_out_accuracy": self.held_out_right.double().mean(dim=1).tolist() if is_held_out else None,
            "chosen": [ids.tolist() for ids in self.chosen],
            "anchors": [ids.tolist() for ids in self.anchors],
        }


@dataclass(frozen=True)
class Courses:
    """All walks of an iteration, or of several that began from other models.

    Args:
        parts: that were looked at.
        courses: the walks by kind; of several models, those of the first one first.
        plan: of each iteration.
        how: examples are ranked.
        models: that the walks began from. Repeats from one are no other models: with several, what is compared is the
            mean over the repeats of each.
    """

    parts: tuple[Part, ...]
    courses: Mapping[Kind, Sequence[Course]]
    plan: Plan
    how: str = ""
    models: int = 1

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds that were walked."""
        return tuple(self.courses)

    @staticmethod
    def joined(found: "Sequence[Courses]") -> "Courses":
        """Return the walks of several iterations, each from another model."""
        first = found[0]
        courses: dict[Kind, list[Course]] = {kind: [] for kind in first.kinds}
        for number, each in enumerate(found):
            for kind, some in each.courses.items():
                courses[kind] += [replace(one, repeat=number * each.plan.repeats + one.repeat) for one in some]
        return replace(first, courses=courses, models=len(found))

    def values(self, kind: Kind, measure: Measure) -> Tensor:
        """Return what was measured, (repeats, steps + 1, parts)."""
        if kind not in self.courses:
            raise ConfigurationError(f"there is no walk on {kind} examples; there are {', '.join(self.courses)}.")
        if measure not in MEASURES:
            raise ConfigurationError(f"a measure is one of {', '.join(MEASURES)}, not {measure!r}.")
        return torch.stack([one.losses if measure == "loss" else one.accuracies for one in self.courses[kind]])

    def independent(self, kind: Kind, measure: Measure) -> Tensor:
        """Return the same with a row for each model where there are several: the mean over its repeats."""
        values = self.values(kind, measure)
        return values if self.models == 1 else values.unflatten(0, (self.models, -1)).mean(dim=1)

    def difference(
        self, kind: Kind, other: Kind | Literal["start"], *, part: int, measure: Measure, step: int = -1
    ) -> Interval:
        """Return by how much a kind exceeds another after a step, or the start, paired over repeats or models."""
        first = self.independent(kind, measure)
        second = first[:, 0] if other == START else self.independent(other, measure)[:, step]
        return paired_interval(first[:, step, part], second[:, part])

    @cached_property
    def comparisons(self) -> list[dict[str, Any]]:
        """Each kind beside the start, and helpful beside each other kind, in every part after the last step."""
        pairs: list[tuple[Kind, Any]] = [(kind, START) for kind in self.kinds]
        pairs += [("helpful", kind) for kind in self.kinds if "helpful" in self.courses and kind != "helpful"]
        return [
            {
                "first": first,
                "second": second,
                "part": part.title,
                "measure": measure,
                **self.difference(first, second, part=number, measure=measure).as_json(),
            }
            for first, second in pairs
            for number, part in enumerate(self.parts)
            for measure in MEASURES
        ]

    def short_steps(self) -> dict[Kind, int]:
        """Return for each kind how many steps had fewer examples than planned, as no more of them helped or harmed."""
        wanted = self.plan.examples
        counts = {
            kind: sum(len(ids) < wanted for one in self.courses[kind] for ids in one.chosen)
            for kind in self.kinds
            if kind in ("helpful", "harmful")
        }
        return {kind: count for kind, count in counts.items() if count}

    def as_json(self) -> dict[str, Any]:
        """Return all of it as JSON can hold it."""
        return {
            "plan": self.plan.as_json(),
            "parts": [part.as_json() for part in self.parts],
            "courses": [one.as_json() for each in self.courses.values() for one in each],
            "comparisons": self.comparisons,
            "how": self.how,
            "models": self.models,
        }
