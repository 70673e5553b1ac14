"""Watch: what is looked at after every step, the loss and the accuracy of every slice of every set.

A set with slices is looked at slice by slice and as a whole. Knows a model and examples; what a look is for is not its
business.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fastif.apps.answers import one_class_each
from fastif.apps.correction import Parameters, judge
from fastif.data import Examples
from fastif.errors import ModelError
from fastif.evaluation import differentiated_once
from fastif.model import TorchModel


@dataclass(frozen=True)
class Part:
    """A set that is looked at, or one slice of it."""

    set: str
    slice: str | None
    examples: int

    @property
    def title(self) -> str:
        """How a person calls it."""
        return self.set if self.slice is None else self.slice

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {"set": self.set, "slice": self.slice, "title": self.title, "examples": self.examples}


@dataclass(frozen=True)
class Look:
    """What was seen at some weights.

    Args:
        losses: the mean loss of each part, (parts,).
        accuracies: the share of each part that is predicted right.
        held_out: the loss of each held-out anchor, (held-out anchors,).
        held_out_right: whether each of them is predicted right.
    """

    losses: Tensor
    accuracies: Tensor
    held_out: Tensor
    held_out_right: Tensor


class Watch:
    """Sets of examples that are looked at together.

    Args:
        model: the model; its parameters are given at each look.
        sets: by name; the parts of a set with slices are its slices in the order of their names, then all of it.
        held_out: examples whose losses are wanted one by one; None for none.
    """

    def __init__(self, model: TorchModel, sets: Mapping[str, Examples], held_out: Examples | None) -> None:
        self._model, self._sets, self._held_out = model, dict(sets), held_out
        self._rows: list[tuple[str, Tensor]] = []
        self.parts: list[Part] = []
        for name, examples in self._sets.items():
            for part, rows in _parts(name, examples):
                self.parts.append(part)
                self._rows.append((name, rows))

    def look(self, parameters: Parameters) -> Look:
        """Run the model over everything at these parameters."""
        with differentiated_once():
            seen = {name: judge(self._model, parameters, examples) for name, examples in self._sets.items()}
            right, held_out = torch.empty(0, dtype=torch.bool), torch.empty(0)
            if self._held_out is not None:
                right, held_out = judge(self._model, parameters, self._held_out)
        losses = [seen[name][1][rows].double().mean() for name, rows in self._rows]
        accuracies = [seen[name][0][rows].double().mean() for name, rows in self._rows]
        return Look(_stacked(losses), _stacked(accuracies), held_out.double(), right)


def check_classes(model: TorchModel, examples: Examples) -> None:
    """Raise unless every example has one class of several, without which there is no accuracy."""
    batch = model.place(examples.batch(range(min(len(examples), 2))))
    outputs = model.outputs(model.parameters, batch.inputs)
    if not one_class_each(outputs, batch.targets):
        raise ModelError(
            f"for an example the model gives outputs {tuple(outputs.shape[1:])}, and its target has shape "
            f"{tuple(batch.targets.shape[1:])}. Steps are judged by accuracy too, which needs one label of several "
            "classes for each."
        )


def _parts(name: str, examples: Examples) -> list[tuple[Part, Tensor]]:
    whole = Part(name, None, len(examples)), examples.everyone()
    if examples.slices is None:
        return [whole]
    members: dict[str, list[int]] = defaultdict(list)
    for row, slice_name in enumerate(examples.slices):
        members[slice_name].append(row)
    slices = [(Part(name, each, len(rows)), torch.tensor(rows)) for each, rows in sorted(members.items())]
    return slices if len(slices) == 1 else [*slices, whole]


def _stacked(values: list[Tensor]) -> Tensor:
    return torch.stack(values) if values else torch.empty(0, dtype=torch.float64)
