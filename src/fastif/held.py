"""Held: all examples by their numbers, with stored states for those that this process holds.

Several processes that share a training set store the states of their own examples alone. What else is asked for (the
first few examples, by checks; those that LiSSA draws) is encoded when it is asked for, or in one go beforehand. Knows
the prefix cache, and not who the other processes are.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fastif.batch import STATES, Batch
from fastif.data import Examples
from fastif.evaluation import differentiated_once
from fastif.prefix import PrefixCache, PrefixModel
from fastif.progress import Progress


class Selected(Examples):
    """Some examples of a data set, numbered anew."""

    def __init__(self, examples: Examples, ids: Tensor) -> None:
        self.__dict__.update(copy.copy(examples).__dict__)
        self._all, self._ids = examples, ids
        self.lengths = None if examples.lengths is None else examples.lengths[ids]

    def __len__(self) -> int:
        return len(self._ids)

    def batch(self, ids: Sequence[int] | Tensor) -> Batch:
        """Return the examples with these new numbers as one batch."""
        numbers = torch.as_tensor(ids, dtype=torch.int64, device="cpu")
        return replace(self._all.batch(self._ids[numbers]), ids=numbers)

    def on(self, device: torch.device) -> "Selected":
        """Return the same with what batches are cut from on a device."""
        return Selected(self._all.on(device), self._ids)


class Held(Examples):
    """All examples, with states in their batches: stored ones of some, and those of others made when asked for.

    Args:
        examples: all of them.
        ids: those whose states are stored.
        view: makes a data set with states in its batches of one without.
        model: that encodes what is not stored.
    """

    def __init__(
        self, examples: Examples, ids: Tensor, view: Callable[[Examples], Examples], model: PrefixModel
    ) -> None:
        self.__dict__.update(copy.copy(examples).__dict__)
        self._plain, self._view, self._model = examples, view, model
        self._places = torch.full((len(examples),), -1)  # among what is stored
        self._parts: list[Examples] = []
        self._firsts: list[int] = []
        self.hold(ids)

    def hold(self, ids: Tensor) -> None:
        """Store the states of these examples too; they are computed when the first of them is asked for."""
        fresh = ids[self._places[ids] < 0].unique()
        if len(fresh):
            first = int(self._places.max()) + 1
            self._places[fresh] = torch.arange(first, first + len(fresh))
            self._firsts.append(first)
            self._parts.append(self._view(Selected(self._plain, fresh)))

    def batch(self, ids: Any) -> Batch:
        """Return the examples with these numbers as one batch that carries their states."""
        numbers = torch.as_tensor(ids, dtype=torch.int64, device="cpu")
        places = self._places[numbers]
        for part, first in zip(self._parts, self._firsts, strict=True):
            if bool(((places >= first) & (places < first + len(part))).all()):
                return replace(part.batch(places - first), ids=numbers)
        batch = self._model.place(self._plain.batch(numbers))
        with torch.no_grad(), differentiated_once():
            states = self._model.encode(batch)
        inputs = batch.inputs if isinstance(batch.inputs, dict) else {}
        return Batch({**inputs, STATES: states}, batch.targets, numbers, batch.source)


def held_view(
    cache: PrefixCache, model: Any, examples: Examples, ids: Tensor, *, batch_size: int, progress: Progress
) -> Examples:
    """Return the examples with states in their batches, those of `ids` stored; as they are without a prefix."""

    def view(some: Examples) -> Examples:
        return cache.view(model, some, batch_size=batch_size, progress=progress)

    if not isinstance(model, PrefixModel) or model.prefix is None:
        return examples
    return Held(examples, ids, view, model)
