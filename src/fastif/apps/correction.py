r"""Correct a model where it fails: find the training examples that help there, and take a few gradient steps on them.

*Anchors* are held-out examples of the failing part, with labels. What helps them can be asked in two ways:

- "retrain": what would hurt their mean loss most if it had been left out of the training,
  $I(z) = -\bar g_a^\top (H + \lambda I)^{-1} g_z$;
- "finetune-step": on what would a gradient step help now. One step of size $\eta$ on z changes the mean loss of the
  anchors by $-\eta\, \bar g_a^\top g_z$ to first order: the same formula without curvature.

Two baselines need no influence: steps on *random* training examples, and on the *anchors* themselves. The model is
never changed: what comes back are parameters, and `corrected_module` makes a module of them. Knows models by their
outputs and losses alone, and classes as the largest output.
"""

import copy
import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from fastif import ranking
from fastif.apps.answers import require_one_class_each
from fastif.batch import Batch
from fastif.data import Examples, Subset
from fastif.errors import ConfigurationError, ConvergenceError, DataError
from fastif.explainer import Explainer
from fastif.fitting import fitting
from fastif.model import TorchModel
from fastif.prefix import PrefixCache
from fastif.progress import Progress, silent
from fastif.solvers import Identity
from fastif.solvers.sampling import generator

Effect = Literal["retrain", "finetune-step", "random", "anchors"]
ALL = "all"  # the name of everything together, beside the slices
BATCH_SIZE, GPU_BATCH_SIZE = 256, 1024  # fewer would not keep a GPU busy

Parameters = dict[str, Tensor]


@dataclass(frozen=True)
class Steps:
    """How the gradient steps are taken.

    Each descends on `weight` times the mean loss of the chosen examples plus `1 - weight` times that of some that are
    drawn anew from the training set. Without the second part a model unlearns what the chosen ones say nothing of:
    those that help a failing part are often all of one class.

    Args:
        examples: training examples to choose, the most helpful ones.
        weight: of the chosen examples.
        rehearsed: training examples to draw for each step; 0 for none, and then the chosen ones have all the weight.
        learning_rate: of plain gradient descent.
        most: steps, at most.
        every: after so many steps, look whether to keep them.
        tolerance: how much accuracy on the guard set may be lost; steps that lose more are not kept.
        seed: of what is drawn.
    """

    examples: int = 20
    weight: float = 0.25
    rehearsed: int = 64
    learning_rate: float = 0.03
    most: int = 30
    every: int = 5
    tolerance: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("examples", 1), ("rehearsed", 0), ("most", 1), ("every", 1), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
                raise ConfigurationError(f"{name} must be a whole number of at least {least}, not {value!r}.")
        for name in ("weight", "learning_rate", "tolerance"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise ConfigurationError(f"{name} must be a number of at least 0, not {value!r}.")
        if not self.weight or self.weight > 1 or not self.learning_rate or self.tolerance > 1:
            raise ConfigurationError("weight and learning rate must be above 0, weight and tolerance at most 1.")


@dataclass(frozen=True)
class Looked:
    """What was seen after some steps: the mean loss of the anchors, and accuracy on the guard set if there is one."""

    steps: int
    anchor_loss: float
    guard_accuracy: float | None


@dataclass(frozen=True)
class Corrected:
    """A correction.

    Args:
        effect: by what the training examples were chosen.
        parameters: the new ones; those of the model where no step was worth keeping.
        train_ids: the training examples that were chosen, the most helpful first; empty for the anchors.
        passed_over: rejected ones that would have been chosen before the last of them.
        steps: how many were kept.
        history: what was seen on the way.
    """

    effect: Effect
    parameters: Parameters
    train_ids: Tensor
    passed_over: Tensor
    steps: int
    history: tuple[Looked, ...]


class Correction:
    """Corrections of one model, by any of the effects.

    Args:
        model: a `TorchModel`, or anything with its methods.
        train: the data to take steps on.
        anchors: held-out examples of the part where the model fails, with labels.
        guard: held-out examples of what must not be lost; None looks at nothing else.
        rejected: numbers of training examples that somebody has read and found wrong: they are never chosen.
        steps: the knobs.
        prefix_cache: where to keep what the model computes below the first trainable layer.
        progress: called as progress(stage, done, total).

    >>> x = torch.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 1.0]])
    >>> module = nn.Linear(2, 2, bias=False)
    >>> _ = nn.init.zeros_(module.weight)
    >>> model = TorchModel(module, "cross_entropy")
    >>> correction = Correction(model, (x, torch.tensor([0, 1, 0])), anchors=(x[1:2], torch.tensor([1])))
    >>> correction.helpful("finetune-step")
    tensor([1])
    """

    def __init__(
        self,
        model: TorchModel,
        train: Any,
        *,
        anchors: Any,
        guard: Any = None,
        rejected: Sequence[int] = (),
        steps: Steps | None = None,
        prefix_cache: PrefixCache | None = None,
        progress: Progress = silent,
    ) -> None:
        self.model = model
        self.steps = steps or Steps()
        self._cache = prefix_cache or PrefixCache()
        self._progress = progress
        self._train, self._anchors = model.read(train, "train"), model.read(anchors, "anchors")
        self._rejected = torch.as_tensor(list(rejected), dtype=torch.int64)
        self._seen_train, self._seen_anchors = self._view(self._train), self._view(self._anchors)
        self._guard = None if guard is None else self._view(model.read(guard, "guard"))
        if self._guard is not None:
            judge(model, model.parameters, Subset(self._guard, [0]))  # which says now what has no accuracy

    def helpful(self, effect: Effect, explainer: Explainer | None = None) -> Tensor:
        """Return the training examples that help the mean of the anchors, the most helpful first.

        For "retrain", an explainer of the same model and data spares its curvature from being made once more.
        """
        if effect not in ("retrain", "finetune-step"):
            raise ConfigurationError(f"only 'retrain' and 'finetune-step' rank training examples, not {effect!r}.")
        if explainer is None or effect == "finetune-step":
            solver: Any = Identity() if effect == "finetune-step" else "auto"
            explainer = Explainer(
                self.model, self._train, solver=solver, prefix_cache=self._cache, progress=self._progress
            )
        scores = explainer.scores(self._anchors, reduce="mean")
        return ranking.helpful(scores.values[0], scores.train_ids[0], len(self._train)).ids

    def run(self, effect: Effect, *, explainer: Explainer | None = None) -> Corrected:
        """Choose examples by an effect and take steps on them.

        Kept are the steps after which the anchors' mean loss is lowest, of those that lose no more accuracy on the
        guard set than allowed: anchors and guard choose, and nothing that a result is measured on.
        """
        if effect not in get_args(Effect):
            raise ConfigurationError(f"effect must be one of {', '.join(get_args(Effect))}, not {effect!r}.")
        if effect == "anchors":
            nothing = torch.empty(0, dtype=torch.int64)
            return self._descend(effect, nothing, nothing)
        if effect == "random":
            order = torch.randperm(len(self._train), generator=self._draw(0))
        else:
            order = self.helpful(effect, explainer)
        good = ~torch.isin(order, self._rejected)
        last = int((good.cumsum(0) < self.steps.examples).sum()) + 1  # how far down the list somebody has to read
        chosen, passed_over = order[:last][good[:last]], order[:last][~good[:last]]
        if not len(chosen):
            raise DataError(
                f"no training example that was not rejected helps the anchors by {effect}, so that there is nothing to "
                "take a step on. Look at the anchors' labels, or add training examples like them."
            )
        return self._descend(effect, chosen, passed_over)

    def _descend(self, effect: Effect, ids: Tensor, passed_over: Tensor) -> Corrected:
        knobs = self.steps
        current: Parameters = {name: tensor.detach().clone() for name, tensor in self.model.parameters.items()}
        history = [self._look(0, current)]
        kept, best = current, history[0]
        for number in range(1, knobs.most + 1):
            self._progress(f"steps on {effect} examples", number - 1, knobs.most)
            current = self._step(current, ids, number)
            if number % knobs.every and number < knobs.most:
                continue
            history.append(self._look(number, current))
            if history[-1].anchor_loss < best.anchor_loss and self._allowed(history[-1], history[0]):
                kept, best = current, history[-1]
        self._progress(f"steps on {effect} examples", knobs.most, knobs.most)
        return Corrected(effect, kept, ids, passed_over, best.steps, tuple(history))

    def _step(self, parameters: Parameters, ids: Tensor, number: int) -> Parameters:
        """Return the parameters after one step of gradient descent; without ids it is on the anchors."""
        leaves = {name: tensor.detach().requires_grad_() for name, tensor in parameters.items()}
        drawn = torch.randperm(len(self._train), generator=self._draw(number))[: self.steps.rehearsed]
        weight = self.steps.weight if len(drawn) else 1.0
        chosen = (self._seen_train, ids) if len(ids) else (self._seen_anchors, self._seen_anchors.everyone())
        with torch.inference_mode(False), torch.enable_grad():
            for examples, rows, share in ((*chosen, weight), (self._seen_train, drawn, 1 - weight)):
                for batch in examples.batches(BATCH_SIZE, rows) if len(rows) else ():
                    placed = self.model.place(batch)
                    losses = self.model.losses(self.model.outputs(leaves, placed.inputs), placed.targets)
                    (share / len(rows) * losses.sum()).backward()
        after = {
            name: leaf.detach() if leaf.grad is None else leaf.detach() - self.steps.learning_rate * leaf.grad
            for name, leaf in leaves.items()
        }
        if not all(bool(torch.isfinite(tensor).all()) for tensor in after.values()):
            raise ConvergenceError(
                f"step {number} of the correction met a number that is not finite. Lower the learning rate, "
                f"{self.steps.learning_rate:g} now."
            )
        return after

    def _look(self, steps: int, parameters: Parameters) -> Looked:
        (losses,) = _of_each(self.model, parameters, self._seen_anchors, judged=False)
        guard = None
        if self._guard is not None:
            guard = float(judge(self.model, parameters, self._guard)[0].double().mean())
        return Looked(steps, float(losses.double().mean()), guard)

    def _allowed(self, now: Looked, before: Looked) -> bool:
        if now.guard_accuracy is None or before.guard_accuracy is None:
            return True
        return now.guard_accuracy >= before.guard_accuracy - self.steps.tolerance

    def _draw(self, step: int) -> torch.Generator:
        return generator(self.steps.seed, step)

    def _view(self, examples: Examples) -> Examples:
        return self._cache.view(self.model, examples, progress=self._progress)


def batch_size(model: TorchModel) -> int:
    """Return how many examples go through a model together, where little is kept of each."""
    return BATCH_SIZE if model.device.type == "cpu" else GPU_BATCH_SIZE


def judge(model: TorchModel, parameters: Parameters, examples: Examples) -> tuple[Tensor, Tensor]:
    """Return at these parameters, for each example, whether its largest output is its class, and its loss."""
    right, losses = _of_each(model, parameters, examples, judged=True)
    return right, losses


def _of_each(model: TorchModel, parameters: Parameters, examples: Examples, *, judged: bool) -> list[Tensor]:
    """Return what `judge` does, or without `judged` the losses alone, for which a model need not know of classes."""
    everyone = examples.everyone()
    order = everyone[examples.by_length(everyone)]

    def look(batch: Batch) -> list[Tensor]:
        placed = model.place(batch)
        outputs = model.outputs(parameters, placed.inputs)
        losses = model.losses(outputs, placed.targets).cpu()
        if not judged:
            return [losses]
        require_one_class_each(outputs, placed.targets)
        return [(outputs.argmax(dim=1) == placed.targets).cpu(), losses]

    with torch.no_grad():
        batches = examples.batches(batch_size(model), order)
        found = [part for batch in batches for part in fitting(look, batch)]
    back = order.argsort()
    return [torch.cat(each)[back] for each in zip(*found, strict=True)]


def accuracy_by(groups: Sequence[str], right: Tensor) -> dict[str, float]:
    """Return the share that is right in each group, in the order in which groups first appear, and of all.

    >>> accuracy_by(["a", "b", "a"], torch.tensor([True, True, False]))
    {'a': 0.5, 'b': 1.0, 'all': 0.67}
    """
    members: dict[str, list[int]] = defaultdict(list)
    for row, group in enumerate(groups):
        members[group].append(row)
    shares = {group: float(right[rows].double().mean()) for group, rows in members.items()}
    return {**shares, ALL: float(right.double().mean())}


def check_disjoint(anchors: Iterable[Hashable], test: Iterable[Hashable]) -> None:
    """Raise if an anchor is a test example too: what chooses a correction cannot measure it.

    >>> check_disjoint(["a", "b"], ["c"])
    """
    shared = set(anchors) & set(test)
    if shared:
        raise DataError(
            f"{len(shared)} anchors are in the test set too, for instance {min(map(str, shared))!r}: a model that was "
            "corrected by them would look better than it is. Take them out of one of the two."
        )


def corrected_module(model: TorchModel, parameters: Parameters) -> nn.Module:
    """Return a copy of the model's module with these parameters; the module itself stays as it is."""
    module = copy.deepcopy(model.module)
    with torch.no_grad():
        for name, tensor in parameters.items():
            module.get_parameter(name).copy_(tensor)
    return module
