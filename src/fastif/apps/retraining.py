"""Retraining: leave examples out, train again, and look at the loss of the queries. The truth behind a score.

A training is noisy: another seed alone moves the loss of a query, often by more than a few examples do. So every model
is compared with one that was trained on everything from the same start in the same order; there are several such
pairs, one a seed; and random removals show what any removal does. Many models are trained at once (stack.py). Knows a
model and examples; what is removed is in `removals.py`, what is made of the losses in `retrained.py`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from fastif.apps.answers import answers, check_labelled
from fastif.apps.removals import Removal
from fastif.apps.retrained import Retrained
from fastif.apps.stack import Parameters, StackTraining, member, stacked_losses
from fastif.apps.training_recipe import TrainingRecipe
from fastif.errors import ConfigurationError, DataError
from fastif.fitting import in_parts
from fastif.keeping import Keep, content_sha256, nothing_kept
from fastif.model import TorchModel
from fastif.precision import Precision
from fastif.prefix import PrefixCache
from fastif.progress import Progress, silent
from fastif.resources import Resources

Start = Callable[[int], Parameters]
"""The parameters that a training with this seed begins from."""


class Retraining:
    """Trainings of one model with some examples left out.

    Args:
        model: a `TorchModel`, or anything with its methods.
        train: what it was trained on.
        queries: with labels; their losses are looked at.
        recipe: how to train.
        start: what a training begins from, by its seed; the model's own parameters unless given.
        prefix_cache: where to keep what the model computes below the first trainable layer.
        together: whether models go through a batch together; None chooses.
        precision: of matrix products on a GPU.
        progress: called as progress(stage, done, total).
        keep: where pieces of the work are kept.
    """

    def __init__(
        self,
        model: TorchModel,
        train: Any,
        *,
        queries: Any,
        recipe: TrainingRecipe,
        start: Start | None = None,
        prefix_cache: PrefixCache | None = None,
        together: bool | None = None,
        precision: Precision = "auto",
        progress: Progress = silent,
        keep: Keep = nothing_kept,
    ) -> None:
        self.model = model
        self._resources = Resources(model, precision, None, None)
        self._start: Start = start or (lambda seed: model.parameters)
        self._progress, self._keep = progress, keep
        examples, asked = model.read(train, "train"), model.read(queries, "queries")
        check_labelled(asked)
        cache = prefix_cache or PrefixCache()
        self._queries = cache.view(model, asked, progress=progress)
        with self._resources.working():
            for data in (examples, asked):
                model.check(model.place(data.batch(range(min(len(data), 8)))))
        self._training = StackTraining(
            model, cache.view(model, examples, progress=progress), recipe, together, self._tell
        )
        self._done = self._all = self._now = 0  # models, for the progress

    def run(self, removals: Sequence[Removal], *, seeds: Sequence[int] = (0, 1, 2)) -> Retrained:
        """Train on everything and without each of the removals, for each seed, and look at the queries."""
        if not seeds or len(set(seeds)) < len(seeds):
            raise ConfigurationError(f"give at least one seed, and each once, not {list(seeds)!r}.")
        total = len(self._training.train)
        for one in removals:
            _check_removed(one.ids, total)
        # removals of the same examples are one training
        distinct = list(dict.fromkeys([frozenset[int](), *(frozenset(one.ids) for one in removals)]))
        self._done, self._all = 0, len(distinct) * len(seeds)
        with self._resources.working():
            before = answers(self.model, self.model.parameters, self._queries)
            every = torch.stack([self._losses(distinct, seed) for seed in seeds])
        rows = torch.tensor([0, *(distinct.index(frozenset(one.ids)) for one in removals)])
        return Retrained(tuple(removals), every[:, rows].double(), tuple(seeds), before.losses, before.right, total)

    def model_without(self, ids: Sequence[int] = (), *, seed: int = 0) -> Parameters:
        """Return the parameters of one model, trained without some examples."""
        _check_removed(ids, len(self._training.train))
        weights = torch.ones(1, len(self._training.train))
        weights[0, list(ids)] = 0
        self._done, self._now, self._all = 0, 1, 1
        with self._resources.working():
            return member(self._training.fit(weights, self._start(seed), seed=seed), 0)

    def _losses(self, distinct: list[frozenset[int]], seed: int) -> Tensor:
        """Return the losses (removals, queries) after training with one seed."""
        at_once = self._training.models_at_once()
        start: Parameters | None = None
        parts = []
        for first in range(0, len(distinct), at_once):
            chunk = [sorted(ids) for ids in distinct[first : first + at_once]]
            name = f"losses after training with seed {seed} without {content_sha256(_as_tensors(chunk))}"

            def make(chunk: list[list[int]] = chunk) -> dict[str, Tensor]:
                nonlocal start
                start = start if start is not None else self._start(seed)
                parts = in_parts(partial(self._trained, start=start, seed=seed), chunk, len(chunk), _cut)
                return {"losses": torch.cat(parts)}

            parts.append(self._keep(name, make)["losses"])
            self._done += len(chunk)
        return torch.cat(parts)

    def _trained(self, chunk: list[list[int]], start: Parameters, seed: int) -> Tensor:
        """Train the models of one chunk together, and return their losses."""
        self._now = len(chunk)
        weights = torch.ones(len(chunk), len(self._training.train))
        for row, ids in enumerate(chunk):
            weights[row, ids] = 0
        stack = self._training.fit(weights, start, seed=seed)
        return stacked_losses(self.model, stack, self._queries, together=self._training.together)

    def _tell(self, stage: str, done: int, total: int) -> None:
        self._progress(stage, self._done * total + done * self._now, self._all * total)


def _cut(chunk: list[list[int]], start: int, stop: int) -> list[list[int]]:
    return chunk[start:stop]


def _as_tensors(chunk: list[list[int]]) -> dict[str, Tensor]:
    return {str(row): torch.tensor(ids, dtype=torch.int64) for row, ids in enumerate(chunk)}


def _check_removed(ids: Sequence[int], total: int) -> None:
    """Raise unless these are numbers of some of the training examples, each once."""
    if len(set(ids)) < len(ids) or not all(0 <= number < total for number in ids):
        raise DataError(f"a removal names examples twice, or others than the {total} that there are.")
    if len(ids) >= total:
        raise DataError(f"a removal of all {total} examples leaves nothing to train on.")
