"""Queries: what is to be explained, checked against the training data, as gradients and as a line for people.

Knows a model, examples and a measure of them; knows neither curvature nor scores.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from fastif import vectors
from fastif.batch import Batch
from fastif.data import Examples
from fastif.errors import DataError, LabelError, ShapeError
from fastif.losses import PerExample, negative_margin
from fastif.model import TorchModel, require_one_each
from fastif.prefix import PrefixModel, encoded
from fastif.turns import in_turn
from fastif.vectors import Block


class Queries:
    """Examples to be explained by a measure of them.

    Args:
        model: the model that is asked.
        examples: the queries.
        measure: what of a query is explained, and its name in words.
        known: the training data, whose form the queries must have.
        at_once: how many of a mean length go through the model together.
        by_states: whether frozen layers are gone through once, and not again by each pass.
    """

    def __init__(
        self,
        model: TorchModel,
        examples: Examples,
        measure: tuple[PerExample, str],
        *,
        known: Examples,
        at_once: int,
        by_states: bool,
    ) -> None:
        self.examples = examples
        self._model = model
        self._measure, self._name = measure
        self._known = known
        self._at_once, self._by_states = at_once, by_states
        self._checked = False
        self._ready: Batch | None = None  # all of them, where they are one batch

    def __len__(self) -> int:
        return len(self.examples)

    def placed(self) -> Iterator[Batch]:
        """Yield the queries in batches on the model's device, each checked when they are first gone through."""
        yield from self._placed(self.examples.everyone())
        self._checked = True

    def _placed(self, ids: Tensor) -> Iterator[Batch]:
        if self._ready is not None and len(ids) == len(self):
            yield self._ready
            return
        known = self._known.batch([0])
        for batch in self.examples.batches(self._at_once, ids):
            if not self._checked:
                _check_form(batch, known)
            placed = self._model.place(batch)
            if self._by_states and isinstance(self._model, PrefixModel) and self._model.prefix is not None:
                placed = encoded(self._model, placed)  # for all passes that follow: features, gradients, titles
            if not self._checked:
                self._check(placed)
            if len(batch) == len(self):
                self._ready = placed
            yield placed

    def _check(self, placed: Batch) -> None:
        self._model.check(placed)
        outputs = self._model.outputs(self._model.parameters, placed.inputs)
        if self._measure is negative_margin:
            _check_classes(outputs, placed)
        values = self._measure(outputs, placed.targets)
        require_one_each(values, outputs, f"measure {self._name}")
        if self.examples.targets_are_predictions and values.abs().max() <= torch.finfo(values.dtype).eps ** 1.5:
            raise DataError(
                f"the {self._name} of the queries at the model's own predictions is zero, so that there is nothing "
                "to explain. Give the queries labels, or measure='margin' or a function of the outputs."
            )

    def gradients(
        self, gradients_of: Callable[[Batch, PerExample], Block], *, mean: bool, at_once: int
    ) -> Iterator[Block]:
        """Yield the gradients of the measure, a block for each so many queries; or the one mean of all.

        Where lengths differ a block is of several batches, as a solve for each of these would cost as much as for all.
        """
        total: Block | None = None
        for ids in self.examples.everyone().split(at_once):
            blocks = []
            for batch in self._placed(ids):
                block = gradients_of(batch, self._measure)
                if mean:
                    share = vectors.scale(vectors.mean(block), len(batch) / len(self))
                    total = share if total is None else vectors.add(total, share)
                else:
                    blocks.append(block)
            if blocks:
                yield vectors.gather(blocks)
        self._checked = True
        if total is not None:
            yield total

    @in_turn()
    def titles(self) -> list[tuple[str, str]]:
        """Return a line on each query, and its target in words."""
        titles: list[tuple[str, str]] = []
        examples = self.examples
        for batch in self.placed():
            outputs = self._model.outputs(self._model.parameters, batch.inputs)
            values = self._measure(outputs, batch.targets)
            for target, output, value in zip(batch.targets, outputs, values, strict=True):
                name = examples.name_of(target)
                title = f"Query {len(titles)}: " + (
                    "no label, " if examples.targets_are_predictions else f"target {name}, "
                )
                if examples.targets_are_predictions:
                    title += f"predicted {name}, "
                elif output.ndim == 1 and len(output) > 1 and not target.is_floating_point():
                    title += f"predicted {examples.name_of(output.argmax())}, "
                titles.append((f"{title}{self._name} {value.item():.4g}", name if target.numel() == 1 else ""))
        return titles


def _check_classes(outputs: Tensor, placed: Batch) -> None:
    """Raise for a query whose label is no class, and so has no margin."""
    if outputs.ndim != 2 or outputs.shape[1] == 1 or placed.targets.ndim != 1 or placed.targets.is_floating_point():
        return
    wrong = (placed.targets < 0) | (placed.targets >= outputs.shape[1])
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise LabelError(
            f"example {int(placed.ids[row])} of {placed.source} has the label {int(placed.targets[row])}, and classes "
            f"are 0 to {outputs.shape[1] - 1}, so that it has no margin. Give that query a label, or leave it out."
        )


def _check_form(batch: Batch, known: Batch) -> None:
    """Raise if queries do not have the inputs, and each as many dimensions, that the training data has."""
    seen, needed = batch.tensors(), known.tensors()
    if set(seen) != set(needed):
        raise ShapeError(
            f"the queries have {', '.join(seen)}, but the training data has {', '.join(needed)}. "
            "Give queries in the same form."
        )
    for name, tensor in seen.items():
        if tensor.ndim != needed[name].ndim:
            raise ShapeError(
                f"the queries have {name} of shape {tuple(tensor.shape)}, but the training data has "
                f"{('n', *needed[name].shape[1:])}. For a single query keep the first dimension: x[None]."
            )
