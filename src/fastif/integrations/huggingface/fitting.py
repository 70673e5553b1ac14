"""The loop that fits the chosen parameters of a text classifier, on stored states where lower layers are frozen.

Parameters are a dictionary of leaf tensors from the first step to the last; the module is never written to here. Knows
batches, losses and what a dev set measures; knows neither files nor tables.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fastif.apps.training_recipe import stepping
from fastif.data import Examples, Subset
from fastif.errors import ConvergenceError
from fastif.integrations.huggingface.classifier import TextClassifier
from fastif.integrations.huggingface.recipe import Recipe
from fastif.progress import Progress, silent
from fastif.shuffling import bucketed
from fastif.solvers.sampling import generator

RATES = (2e-5, 5e-5, 1e-4, 2e-4, 5e-4)  # that "auto" tries
TRIED = 0.2  # share of the training set on which each of them is tried
TRIAL = 3  # what is drawn, as a part of the key of the draw; shuffling.py has 1 and 2

Parameters = dict[str, Tensor]


@dataclass(frozen=True)
class Measured:
    """How well examples are fitted: mean loss; share of right answers, also by label, where there are classes."""

    loss: float
    accuracy: float | None
    by_label: dict[str, dict[str, float]]

    @property
    def goodness(self) -> tuple[float, float]:
        """The larger the better: accuracy, and of equals the lower loss."""
        return (self.accuracy or 0.0, -self.loss)


@dataclass(frozen=True)
class Epoch:
    """What one pass over the training set came to."""

    number: int
    train_loss: float
    dev: Measured | None
    best: bool
    seconds: float


@dataclass(frozen=True)
class Fit:
    """The parameters of the best epoch, and how it came to them."""

    parameters: Parameters
    epochs: list[Epoch]
    learning_rate: float

    @property
    def best(self) -> Epoch:
        """The epoch whose parameters were kept."""
        return next(epoch for epoch in reversed(self.epochs) if epoch.best)


OnEpoch = Callable[[Epoch], None]


@dataclass(frozen=True)
class Fitting:
    """A model, what it is fitted to, what it is measured on, and how."""

    model: TextClassifier
    train: Examples
    dev: Examples | None
    recipe: Recipe

    def run(self, learning_rate: float, *, progress: Progress = silent, on_epoch: OnEpoch = lambda epoch: None) -> Fit:
        """Fit from the model's own parameters on, until the epochs are over or the dev set has seen no gain."""
        recipe, total = self.recipe, len(self.train)
        steps = self._steps()
        leaves = {name: tensor.detach().clone().requires_grad_() for name, tensor in self.model.parameters.items()}
        optimizer = _optimizer(leaves, recipe)
        epochs: list[Epoch] = []
        kept: Parameters = {}
        step, waited = 0, 0
        for number in range(1, recipe.epochs + 1):
            started, summed, seen = time.perf_counter(), 0.0, 0
            progress("training", (number - 1) * total, recipe.epochs * total)
            for ids in bucketed(self.train.lengths, total, recipe.batch_size, seed=recipe.seed, epoch=number):
                for group in optimizer.param_groups:
                    group["lr"] = recipe.rate(step, steps, learning_rate)
                summed += len(ids) * self._step(leaves, optimizer, ids, f"epoch {number}, step {step + 1}")
                step, seen = step + 1, seen + len(ids)
                progress("training", (number - 1) * total + seen, recipe.epochs * total)
            dev = None if self.dev is None else measure(self.model, leaves, self.dev)
            best = dev is None or all(dev.goodness > epoch.dev.goodness for epoch in epochs if epoch.dev is not None)
            epochs.append(Epoch(number, summed / total, dev, best, time.perf_counter() - started))
            if best:
                kept = {name: leaf.detach().clone() for name, leaf in leaves.items()}
            on_epoch(epochs[-1])
            waited = 0 if best else waited + 1
            if waited >= recipe.patience:
                progress("training", number * total, number * total)
                break
        return Fit(kept, epochs, learning_rate)

    def choose_rate(self, progress: Progress = silent) -> tuple[float, dict[str, float | None]]:
        r"""Return a rate from those of short runs, and the losses that they came to; None for one that diverged.

        Each run starts from the same parameters and sees the same part of the training set once. Its loss is that on
        the dev set or, without one, on what it saw. A long run wants a lower rate than a short one: with $r$ of the
        lowest loss after $s$ steps, a run of $T$ steps gets $r \sqrt{s / T}$.
        """
        count = max(1, round(TRIED * len(self.train)), min(len(self.train), 10 * self.recipe.batch_size))
        order = torch.randperm(len(self.train), generator=generator(self.recipe.seed, TRIAL))
        part = Subset(self.train, order[:count])
        trial = replace(self, train=part, recipe=replace(self.recipe, epochs=1), dev=self.dev or part)
        losses: dict[float, float | None] = {}
        for number, rate in enumerate(RATES):
            progress("choosing the learning rate", number, len(RATES))
            try:
                dev = trial.run(rate).best.dev
                losses[rate] = None if dev is None else dev.loss
            except ConvergenceError:
                losses[rate] = None
        progress("choosing the learning rate", len(RATES), len(RATES))
        finite = {rate: loss for rate, loss in losses.items() if loss is not None}
        if not finite:
            raise ConvergenceError(
                f"the loss was not finite at any learning rate from {RATES[0]:g} to {RATES[-1]:g}. Look for odd labels "
                "or texts, or give a lower learning rate."
            )
        longer = self._steps() / trial._steps()
        best = min(finite, key=lambda rate: finite[rate]) / longer**0.5
        return float(f"{best:.2g}"), {f"{rate:g}": loss for rate, loss in losses.items()}

    def _steps(self) -> int:
        return self.recipe.epochs * -(-len(self.train) // self.recipe.batch_size)

    def _step(self, leaves: Parameters, optimizer: torch.optim.Optimizer, ids: Tensor, where: str) -> float:
        """Take one step, and return the mean loss of its batch before it."""
        batch = self.model.place(self.train.batch(ids))
        with torch.inference_mode(False), torch.enable_grad():
            optimizer.zero_grad(set_to_none=True)
            loss = self.model.losses(self.model.outputs(leaves, batch.inputs), batch.targets).mean()
            loss.backward()
            length = torch.nn.utils.clip_grad_norm_(leaves.values(), self.recipe.clip)
        value = float(loss.detach())
        rate = optimizer.param_groups[0]["lr"]
        if not torch.isfinite(loss.detach() + length):
            raise ConvergenceError(
                f"the training diverged: in {where} the loss is {value:g} and its gradient has length "
                f"{float(length):g}, at a learning rate of {rate:.2g}. Lower the learning rate (--learning-rate), to a "
                "tenth for instance."
            )
        with stepping(where, rate):
            optimizer.step()
        return value


def measure(model: TextClassifier, parameters: Parameters, examples: Examples, batch_size: int = 256) -> Measured:
    """Return how well the examples are fitted at these parameters."""
    everyone = examples.everyone()
    logits, losses, targets = [], [], []
    with torch.no_grad():
        for batch in examples.batches(batch_size, everyone[examples.by_length(everyone)]):
            placed = model.place(batch)
            outputs = model.outputs(parameters, placed.inputs)
            losses.append(model.losses(outputs, placed.targets).double().cpu())
            logits.append(outputs.cpu())
            targets.append(placed.targets.cpu())
    loss = float(torch.cat(losses).mean())
    if not torch.isfinite(torch.tensor(loss)):
        raise ConvergenceError(
            f"the loss on {examples.source} is {loss:g}: the training diverged. Lower the learning rate."
        )
    if model.problem == "regression":
        return Measured(loss, None, {})
    truth, said = torch.cat(targets), model.as_targets(torch.cat(logits))
    right = said == truth
    by_label = {}
    for number, name in model.label_names.items():
        mine = right[truth == number] if model.problem == "single-label" else right[:, number]
        rows = len(mine) if model.problem == "single-label" else int(truth[:, number].sum())
        by_label[name] = {"rows": rows, **({"accuracy": float(mine.double().mean())} if len(mine) else {})}
    return Measured(loss, float(right.double().mean()), by_label)


def _optimizer(leaves: Parameters, recipe: Recipe) -> torch.optim.Optimizer:
    """AdamW, with decay on matrices alone."""
    matrices = [leaf for leaf in leaves.values() if leaf.ndim >= 2]
    others = [leaf for leaf in leaves.values() if leaf.ndim < 2]
    groups: list[dict[str, Any]] = [
        {"params": matrices, "weight_decay": recipe.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=0.0)
