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

from fastif.batch import Batch
from fastif.data import Examples
from fastif.prefix import PrefixCache, PrefixModel, encoded
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
        self._parts: list[tuple[Tensor, Examples]] = []  # numbers in order, and the examples that have them
        self.hold(ids)

    def hold(self, ids: Tensor) -> None:
        """Store the states of these examples together; they are computed when the first of them is asked for.

        A batch is cut from one part, so that all that will be asked for together has to be held together: what another
        part holds too is stored twice.
        """
        if len(ids) and self._place(ids) is None:
            some = ids.unique()
            self._parts.append((some, self._view(Selected(self._plain, some))))

    def _place(self, ids: Tensor) -> tuple[Examples, Tensor] | None:
        """Return a part that holds all of these examples, and where; None if there is none."""
        for numbers, part in self._parts:
            places = torch.searchsorted(numbers, ids).clamp(max=len(numbers) - 1)
            if torch.equal(numbers[places], ids):
                return part, places
        return None

    def batch(self, ids: Any) -> Batch:
        """Return the examples with these numbers as one batch that carries their states."""
        numbers = torch.as_tensor(ids, dtype=torch.int64, device="cpu")
        found = self._place(numbers)
        if found is not None:
            part, places = found
            return replace(part.batch(places), ids=numbers)
        return replace(encoded(self._model, self._model.place(self._plain.batch(numbers))), ids=numbers)


def held_view(
    cache: PrefixCache, model: Any, examples: Examples, ids: Tensor, *, batch_size: int, progress: Progress
) -> Examples:
    """Return the examples with states in their batches, those of `ids` stored; as they are without a prefix."""

    def view(some: Examples) -> Examples:
        return cache.view(model, some, batch_size=batch_size, progress=progress)

    if not isinstance(model, PrefixModel) or model.prefix is None:
        return examples
    return Held(examples, ids, view, model)
