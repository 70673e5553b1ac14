"""Relabelled: the same examples with other targets, whatever they are made of. Knows examples, and no model."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fastif.batch import Batch
from fastif.data import Examples
from fastif.errors import ShapeError


class Relabelled(Examples):
    """A view of examples with a target of its own for each; stored states of a frozen prefix stay in their batches.

    >>> plain = Examples((torch.arange(3.0), torch.tensor([0, 1, 1])))
    >>> Relabelled(plain, torch.tensor([5, 6, 7])).batch([2, 0]).targets
    tensor([7, 5])
    """

    def __init__(self, examples: Examples, targets: Tensor) -> None:
        self.__dict__.update(examples.__dict__)
        if len(targets) != len(examples):
            raise ShapeError(f"{examples.source} has {len(examples)} examples, and {len(targets)} targets were given.")
        self._whole, self._targets = examples, targets.cpu()

    def __len__(self) -> int:
        return len(self._whole)

    def batch(self, ids: Sequence[int] | Tensor) -> Batch:
        """Return the examples with these numbers as one batch."""
        batch = self._whole.batch(ids)
        return replace(batch, targets=self._targets[batch.ids])

    def on(self, device: torch.device) -> "Relabelled":
        """Return these examples with what batches are cut from on a device."""
        return Relabelled(self._whole.on(device), self._targets)
