"""Iteration: the walk through the weights, for each kind of chosen examples and each repeat of the draws.

A step is kept as the examples that it was taken on and what was seen after it. Weights are not: a walk that goes on
after it was stopped, or that is to give the weights after some step, takes the steps anew, which is cheap beside
choosing the examples. Knows plans, weights and looks; which steps are worth keeping is not its business.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from torch import Tensor

from fastif.apps.correction import Parameters
from fastif.apps.iteration.courses import Course, Courses
from fastif.apps.iteration.plan import KINDS, Kind, Plan
from fastif.apps.iteration.updates import mean_gradient, stepped
from fastif.apps.iteration.watching import Look, Watch, check_classes
from fastif.apps.iteration.weights import AtWeights, Ground
from fastif.batch import STATES
from fastif.data import Examples, Subset
from fastif.errors import ConfigurationError
from fastif.keeping import Keep, Tensors, from_tensor, nothing_kept, to_tensor
from fastif.model import TorchModel
from fastif.prefix import PrefixCache
from fastif.progress import Progress, silent
from fastif.resources import Resources


@dataclass(frozen=True)
class Sets:
    """The data of an iteration, each in any form that the model reads.

    Args:
        pool: the examples that steps may be taken on: the training set, or new labelled data.
        anchors: held-out examples of the part where the model fails; some are drawn for every step.
        watched: what is looked at after each step, by name: the test set (by its slices, if it has some), the original
            data, whatever else. None of it chooses anything.
        held_out: anchors that are never drawn: by their losses one can choose which steps to keep.
        hessian_data: what H is the mean over, where that is not the pool: what the model was trained on.
    """

    pool: Any
    anchors: Any
    watched: Mapping[str, Any]
    held_out: Any = None
    hessian_data: Any = None


class Iteration:
    """Walks from one model, on one set of data.

    Args:
        model: a `TorchModel`, or anything with its methods. It is never changed.
        sets: the data; as `iteration.sets` it is seen from above the frozen layers.
        plan: the knobs.
        options: of the explainers (solver, damping, batch_size, precision, memory_budget, curvature, weight_decay,
            weight_decay_in), and prefix_cache. Steps are on the loss alone, whatever ranks them.
        keep: where steps are kept, so that a run which was killed can go on: `RunStore.piece`.
        progress: called as progress(stage, done, total).
    """

    def __init__(
        self,
        model: TorchModel,
        sets: Sets,
        *,
        plan: Plan | None = None,
        options: Mapping[str, Any] | None = None,
        keep: Keep = nothing_kept,
        progress: Progress = silent,
    ) -> None:
        given = dict(options or {})
        self._cache: PrefixCache = given.pop("prefix_cache", None) or PrefixCache()
        self.model, self.plan = model, plan or Plan()
        self._keep, self._progress = keep, progress
        names = ("precision", "memory_budget", "batch_size")
        self._resources = Resources(model, *({"precision": "auto", **given}.get(name) for name in names))  # type: ignore[arg-type]
        with self._resources.working():
            self.sets = Sets(
                pool=self._seen(sets.pool, "pool"),
                anchors=self._seen(sets.anchors, "anchors"),
                watched={name: self._seen(data, name) for name, data in sets.watched.items()},
                held_out=None if sets.held_out is None else self._seen(sets.held_out, "held-out anchors"),
                hessian_data=None if sets.hessian_data is None else self._seen(sets.hessian_data, "train"),
            )
        self._watch = Watch(model, self.sets.watched, self.sets.held_out)
        self.ground = Ground(model, self.sets.pool, self.sets.hessian_data, self.plan, given)

    def for_anchors(self, anchors: Examples, held_out: Examples | None, keep: Keep) -> "Iteration":
        """Return the same for some of the anchors: what was found of the model and the pool is shared."""
        other = copy.copy(self)
        other.sets = replace(self.sets, anchors=anchors, held_out=held_out)
        other._watch, other._keep = Watch(self.model, self.sets.watched, held_out), keep
        return other

    def run(self, kinds: Sequence[Kind] = KINDS) -> Courses:
        """Walk for each kind, as often as the plan repeats, and return what was seen on the way."""
        unknown = [kind for kind in kinds if kind not in KINDS]
        if unknown or not kinds:
            raise ConfigurationError(f"kinds must be some of {', '.join(KINDS)}, not {', '.join(unknown) or 'none'}.")
        order = [kind for kind in KINDS if kind in kinds]
        steps = self.plan.steps
        total, done = len(order) * self.plan.repeats * steps, 0
        found: dict[Kind, list[Course]] = {kind: [] for kind in order}
        with self._resources.working():
            start = _look(self._keep("the start", lambda: _tensors(self._watch.look(self.model.parameters))))
            for repeat in range(self.plan.repeats):
                for kind in order:
                    walk = _Walk(self, kind, repeat)
                    looks = [start]
                    for step in range(1, steps + 1):
                        self._progress("steps", done, total)
                        looks.append(walk.step(step, self._keep))
                        done += 1
                    found[kind].append(Course.of(kind, repeat, looks, walk.chosen, walk.anchors))
            self._progress("steps", total, total)
            ranked = {"helpful", "harmful"} & set(order) or self.plan.needs_curvature
            how = self._kept_words("how examples are ranked", lambda: self.ground.summary) if ranked else ""
        return Courses(tuple(self._watch.parts), found, self.plan, how)

    def _kept_words(self, name: str, make: Callable[[], str]) -> str:
        found: str = from_tensor(self._keep(name, lambda: {"words": to_tensor(make())})["words"])
        return found

    def parameters_after(self, kind: Kind, chosen: Sequence[Tensor]) -> Parameters:
        """Return the weights after steps on these examples, the first step first: a walk that is walked again."""
        walk = _Walk(self, kind, repeat=0, chosen=list(chosen))
        with self._resources.working():
            return walk.parameters

    def look(self, parameters: Parameters) -> Look:
        """Look at everything that is watched, at some weights."""
        return self._watch.look(parameters)

    def anchors_of(self, repeat: int, step: int) -> Tensor:
        """Return the numbers of the anchors of a step."""
        return self.plan.draw_anchors(len(self.sets.anchors), repeat=repeat, step=step)

    def choose(self, kind: Kind, here: AtWeights, *, repeat: int, step: int) -> Tensor:
        """Return the examples of a step: of the pool, or for the kind "anchors" of the anchors."""
        drawn = self.anchors_of(repeat, step)
        if kind == "anchors":
            return drawn
        if kind == "random":
            return self.plan.draw_random(len(self.ground.pool), repeat=repeat, step=step)
        return here.chosen(kind, Subset(self.sets.anchors, drawn))

    def moved(self, kind: Kind, here: AtWeights, chosen: Tensor) -> Parameters:
        """Return the weights after a step on some examples; the same where there is none to take it on."""
        if not len(chosen):
            return here.model.parameters
        examples = Subset(self.sets.anchors if kind == "anchors" else self.ground.pool, chosen)
        gradient = mean_gradient(here.model, here.model.parameters, examples)
        direction = here.solved(gradient) if self.plan.update == "newton" else gradient
        return stepped(here.model.parameters, direction, self.plan.rate)

    def _seen(self, data: Any, source: str) -> Examples:
        """Return data as seen from above the frozen layers, checked to be what the model takes."""
        examples = self.model.read(data, source)
        batch = self.model.place(examples.batch(range(min(len(examples), 8))))
        if isinstance(batch.inputs, dict) and STATES in batch.inputs:  # seen from there already
            return examples
        self.model.check(batch)
        check_classes(self.model, examples)
        return self._cache.view(self.model, examples, progress=self._progress)


@dataclass
class _Walk:
    """One walk: its steps so far, and the weights after as many of them as somebody has asked for."""

    of: Iteration
    kind: Kind
    repeat: int
    chosen: list[Tensor] = field(default_factory=list)
    anchors: list[Tensor] = field(default_factory=list)
    _taken: int = 0
    _here: AtWeights | None = None

    @property
    def here(self) -> AtWeights:
        """The model after all steps so far."""
        here = self._here or self.of.ground.start
        while self._taken < len(self.chosen):
            after = self.of.moved(self.kind, here, self.chosen[self._taken])
            here = self.of.ground.at(after)
            self._taken += 1
        self._here = here
        return here

    @property
    def parameters(self) -> Parameters:
        """The weights after all steps so far."""
        return self.here.model.parameters

    def step(self, step: int, keep: Keep) -> Look:
        """Take a step, or learn from what was kept how it went, and return what was seen after it."""

        def make() -> Tensors:
            chosen = self.of.choose(self.kind, self.here, repeat=self.repeat, step=step)
            self.chosen.append(chosen)
            return {**_tensors(self.of.look(self.parameters)), "chosen": chosen}

        found = keep(f"{self.kind}, repeat {self.repeat}, step {step}", make)
        if len(self.chosen) < step:
            self.chosen.append(found["chosen"])
        self.anchors.append(self.of.anchors_of(self.repeat, step))
        return _look(found)


def _tensors(look: Look) -> Tensors:
    return {each.name: getattr(look, each.name) for each in fields(Look)}


def _look(tensors: Tensors) -> Look:
    return Look(**{each.name: tensors[each.name] for each in fields(Look)})
