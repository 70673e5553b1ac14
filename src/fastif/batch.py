"""Batch: some examples side by side, the inputs told from the targets, checked.

This file knows the forms that a batch comes in, and neither data sets nor models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fastif.errors import DataError, NonFiniteError, ShapeError

TARGET_KEY = "labels"
STATES = "prefix_states"  # the input that carries what lies below the first chosen parameter, computed before

Inputs = tuple[Tensor, ...] | dict[str, Tensor]


@dataclass(frozen=True)
class Batch:
    """Some examples side by side: what the module takes, what the loss takes, and where they came from."""

    inputs: Inputs
    targets: Tensor
    ids: Tensor
    source: str = "data"

    def __len__(self) -> int:
        return self.targets.shape[0]

    def tensors(self) -> dict[str, Tensor]:
        """Return every tensor by a name that a person understands."""
        return {**self.named_inputs(), "the target": self.targets}

    def named_inputs(self) -> dict[str, Tensor]:
        """Return the input tensors by a name that a person understands."""
        if isinstance(self.inputs, dict):
            return {f"'{key}'": tensor for key, tensor in self.inputs.items()}
        return {f"input {position}": tensor for position, tensor in enumerate(self.inputs)}

    def map(self, function: Callable[[Tensor], Tensor]) -> Batch:
        """Return this batch with the function applied to every tensor but the ids."""
        inputs: Inputs
        if isinstance(self.inputs, dict):
            inputs = {key: function(tensor) for key, tensor in self.inputs.items()}
        else:
            inputs = tuple(function(tensor) for tensor in self.inputs)
        return replace(self, inputs=inputs, targets=function(self.targets))

    def rows(self, start: int, stop: int) -> Batch:
        """Return the examples from `start` up to `stop`."""
        return replace(self.map(lambda tensor: tensor[start:stop]), ids=self.ids[start:stop])


def make_batch(collated: Any, ids: Tensor, source: str) -> Batch:
    """Tell inputs from targets (the key `labels`, the last of several, or the one tensor for both), and check both."""
    batch = _split(collated, ids, source)
    _check_lengths(batch)
    _check_finite(batch)
    return batch


def _split(collated: Any, ids: Tensor, source: str) -> Batch:
    if isinstance(collated, Tensor):
        return Batch((collated,), collated, ids, source)
    if isinstance(collated, Mapping):
        if TARGET_KEY not in collated:
            raise DataError(
                f"{source} has the keys {', '.join(map(str, collated))} but not '{TARGET_KEY}', which holds the "
                "targets. Rename the column of targets."
            )
        inputs = {str(key): value for key, value in collated.items() if key != TARGET_KEY}
        batch = Batch(inputs, collated[TARGET_KEY], ids, source)
    elif isinstance(collated, Sequence) and not isinstance(collated, str) and len(collated) >= 2:
        batch = Batch(tuple(collated[:-1]), collated[-1], ids, source)
    else:
        raise DataError(
            f"{source} gives items of type {type(collated).__name__} that do not hold inputs and a target. Give "
            "(input, ..., target), a dictionary with 'labels', or one tensor."
        )
    odd = [name for name, value in batch.tensors().items() if not isinstance(value, Tensor)]
    if odd:
        raise DataError(
            f"in {source}, {odd[0]} is not a tensor after batching. Give tensors or numbers, or pass "
            "fastif.Examples(data, collate=...) with a function that makes tensors."
        )
    return batch


def _check_lengths(batch: Batch) -> None:
    for name, tensor in batch.tensors().items():
        if tensor.ndim == 0 or tensor.shape[0] != len(batch.ids):
            raise ShapeError(
                f"a batch of {len(batch.ids)} examples of {batch.source} has {name} of shape {tuple(tensor.shape)}; "
                "the first dimension must count the examples."
            )


def _check_finite(batch: Batch) -> None:
    for name, tensor in batch.tensors().items():
        if not tensor.is_floating_point():
            continue
        # minus infinity is what additive attention masks are made of
        wrong = ~torch.isfinite(tensor) if tensor is batch.targets else torch.isnan(tensor) | torch.isposinf(tensor)
        if wrong.any():
            raise NonFiniteError(
                f"example {int(batch.ids[int(wrong.nonzero()[0, 0])])} of {batch.source} has a NaN or an infinity in "
                f"{name}. It would spoil every score; remove the example or repair its values."
            )
