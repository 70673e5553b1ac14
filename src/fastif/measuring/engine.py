"""How the library is used where it is measured: explainers with the settings of a run, a clock, memory at its peak.

The only file of benchmarks and experiments that looks behind the public face (`operator_of`, `solver_of`,
`gradients_for`, `seen_by`, `scanner_of`, `working`), so that parts can be timed apart.
"""

import time
import warnings
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch

import fastif
from fastif.apps.checkup.machine import peak_memory
from fastif.batch import Batch
from fastif.candidates.index import BuiltIndex, ExactIndex
from fastif.candidates.keys import Keys
from fastif.candidates.nearest import By, Nearest
from fastif.curvature import CurvatureOperator
from fastif.data import Examples
from fastif.explanation import Explanation
from fastif.measuring.case import Case
from fastif.precision import Precision
from fastif.prefix import PrefixCache
from fastif.scanning import Scanner
from fastif.solvers import PreparedSolver, Solution
from fastif.vectors import Block

TOP = 100  # training examples that an explanation is asked for
HOST_BYTES = 6e10  # of main memory for states, so that no disk is timed


@dataclass(frozen=True)
class Settings:
    """How the library is to compute.

    Args:
        precision: "auto", or what numbers are computed in.
        memory_budget: bytes that it may take; None leaves that to the library.
        batch_size: examples that go through the model together; None leaves that to the library.
    """

    precision: Precision = "auto"
    memory_budget: int | None = None
    batch_size: int | None = None

    def options(self) -> dict[str, Any]:
        """Return them as options of an `Explainer`."""
        return vars(self)


@dataclass(frozen=True)
class SharedCache(PrefixCache):
    """A prefix cache that gives every explainer of the same data the same states and index: they are made once."""

    memory: float = HOST_BYTES
    views: dict[int, Examples] = field(default_factory=dict, compare=False, repr=False)
    indices: dict[tuple[int, By], "BuiltOnce"] = field(default_factory=dict, compare=False, repr=False)

    def view(self, model: Any, examples: Examples, **options: Any) -> Examples:
        """Return the examples with states in their batches."""
        if id(examples) not in self.views:
            self.views[id(examples)] = super().view(model, examples, **options)
        return self.views[id(examples)]

    def nearest(self, examples: Examples, k: int, by: By = "features") -> Nearest:
        """Return a choice of the k nearest of some examples, in an index of them that is built once for all k."""
        return Nearest(k, by=by, index=self.indices.setdefault((id(examples), by), BuiltOnce()))


class BuiltOnce:
    """An exact index that is built of the first keys it is given; later ones, of the same data, are not made."""

    def __init__(self) -> None:
        self._built: BuiltIndex | None = None

    def __repr__(self) -> str:
        return "exact, built once"

    def build(self, keys: Iterable[Keys]) -> BuiltIndex:
        """Build it, or return what was built."""
        if self._built is None:
            self._built = ExactIndex().build(keys)
        return self._built


class Stopwatch:
    """Takes the time of each run of a stage that an explainer reports; a `Progress`.

    Some solvers say that they are at 0 before their first step and again after it: a run begins with the first of
    these, so that all of its steps are in its time, and what is laid out for them too.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}
        self._started: dict[str, float] = {}
        self._heard: dict[str, int] = {}

    def __call__(self, stage: str, done: int, total: int, /) -> None:
        """Hear that `done` of `total` of a stage is finished."""
        before = self._heard.get(stage)
        self._heard[stage] = done
        if done == 0 and before != 0:
            synchronize()
            self._started[stage] = time.perf_counter()
        elif done == total and stage in self._started:
            synchronize()
            self.seconds.setdefault(stage, []).append(time.perf_counter() - self._started.pop(stage))

    def of(self, stage: str) -> float | None:
        """Return how long a stage took when it last ran, None if it did not."""
        return self.seconds[stage][-1] if stage in self.seconds else None

    def first(self, stage: str) -> float | None:
        """Return how long a stage took when it first ran since the last `forget`, None if it did not."""
        return self.seconds[stage][0] if stage in self.seconds else None

    def forget(self) -> None:
        """Forget what was heard so far."""
        self.seconds.clear()
        self._started.clear()
        self._heard.clear()


@dataclass(frozen=True)
class Given:
    """A solver whose answers are known before: for timing what comes after the solve."""

    block: Block

    def prepare(self, operator: CurvatureOperator) -> "Given":
        """There is nothing to prepare."""
        return self

    @property
    def description(self) -> str:
        """In a few words, how it solves."""
        return "solutions given"

    def spectrum(self) -> None:
        """H is never looked at."""

    def solve(self, block: Block, damping: float) -> Solution:
        """Return as many of the given solutions as there are vectors."""
        width = len(next(iter(block.values())))
        value = {name: tensor[:width] for name, tensor in self.block.items()}
        return Solution(value, torch.ones(width, dtype=torch.bool), None, 0, self.description)


@dataclass(frozen=True)
class Warm:
    """A solver that was prepared before, so that several explainers of the same data share what it made."""

    prepared: PreparedSolver

    def prepare(self, operator: CurvatureOperator) -> PreparedSolver:
        """Return what was prepared."""
        return self.prepared


def explainer_for(case: Case, settings: Settings, cache: SharedCache, **options: Any) -> fastif.Explainer:
    """Return an explainer of the case."""
    merged: dict[str, Any] = {"prefix_cache": cache, "progress": False, **settings.options(), **options}
    return fastif.Explainer(case.model, case.train, **merged)


def explain(explainer: fastif.Explainer, queries: Any) -> Explanation:
    """Explain queries; a solve that did not converge is seen by its residual."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fastif.ConvergenceWarning)
        return explainer.explain(queries, top=TOP)


def operator_of(explainer: fastif.Explainer) -> CurvatureOperator:
    """Return the curvature that an explainer uses."""
    return explainer._operator


def solver_of(explainer: fastif.Explainer) -> PreparedSolver:
    """Return the solver of an explainer, prepared."""
    return explainer._prepared[0]


def gradients_for(explainer: fastif.Explainer, queries: Batch) -> Block:
    """Return the gradients of placed queries as an explainer takes them, with weight decay where it has it."""
    gradients_of = explainer._decay.of_queries(explainer._operator.jacobian.gradients)
    return gradients_of(queries, explainer._measure)


def seen_by(explainer: fastif.Explainer) -> Examples:
    """Return the training data as an explainer sees it: with stored states, where it keeps any."""
    return explainer._seen


def scanner_of(explainer: fastif.Explainer) -> Scanner:
    """Return what scores the training data of an explainer."""
    return explainer._scanner


def working(explainer: fastif.Explainer) -> AbstractContextManager[None]:
    """Return the context in which an explainer computes: its precision, and no autocast of the caller's."""
    return explainer._resources.working()


def synchronize() -> None:
    """Wait until a GPU has done what it was given."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def forget_peak() -> None:
    """Count the peak of memory of a GPU from here on; of a process it is that since its start."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def peak(device: str) -> int:
    """Return the most bytes that were held: on a GPU by torch since `forget_peak`, else by the process."""
    return torch.cuda.max_memory_allocated() if device == "cuda" else peak_memory()
