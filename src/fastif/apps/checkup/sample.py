"""A few real examples of a training set, seen as an explainer would see them, and the steps of one on them.

The frozen layers are run for these few alone. Every step is the engine's own code, on fewer examples and vectors, so
that what is measured of it is what a run will do. Knows no machine and makes no estimate.
"""

import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fastif import vectors
from fastif.curvature import CurvatureOperator
from fastif.data import Examples
from fastif.derivatives import gradients
from fastif.errors import ConvergenceWarning
from fastif.model import TorchModel
from fastif.prefix import Prefixed, PrefixModel
from fastif.scoring import scan
from fastif.solvers.cg import ConjugateGradient
from fastif.spectrum import lanczos_spectrum

Step = Callable[[Tensor, int], object]


class SampledStates:
    """The states of the examples that are asked for, computed then and kept."""

    def __init__(self, model: PrefixModel, examples: Examples) -> None:
        self._model, self._examples = model, examples
        self._kept: dict[tuple[int, ...], Tensor] = {}

    def batch(self, ids: Tensor) -> Tensor:
        """Return the states of some examples, padded."""
        key = tuple(ids.tolist())
        if key not in self._kept:
            with torch.no_grad():
                self._kept[key] = self._model.encode(self._model.place(self._examples.batch(ids))).cpu()
        return self._kept[key]


class Sample:
    """The steps of an explainer, each a function of some examples and a number of vectors."""

    def __init__(self, model: TorchModel, train: Examples) -> None:
        self.model, self.train = model, train
        self._drawn: vectors.Block | None = None
        self.has_prefix = isinstance(model, PrefixModel) and model.prefix is not None
        states: Any = SampledStates(model, train) if isinstance(model, PrefixModel) and self.has_prefix else None
        self.seen = Prefixed(train, lambda: states) if self.has_prefix else train

    def operator(self, ids: Tensor) -> CurvatureOperator:
        """Return the curvature over some examples, all in one batch."""
        return CurvatureOperator(self.model, self.seen, ids=ids, batch_size=len(ids))

    def encode(self, ids: Tensor, width: int = 1) -> object:
        """Run the frozen layers."""
        assert isinstance(self.model, PrefixModel)
        with torch.no_grad():
            return self.model.encode(self.model.place(self.train.batch(ids)))

    def product(self, ids: Tensor, width: int) -> object:
        """Multiply some vectors with the curvature."""
        return self.operator(ids)(self.vectors(width))

    def spectrum(self, ids: Tensor, width: int) -> object:
        """Take two steps of the search for the damping."""
        return lanczos_spectrum(self.operator(ids), probes=width, steps=2)

    def solve(self, ids: Tensor, width: int) -> object:
        """Take the gradients of some queries and one step of the solve."""
        operator = self.operator(ids)
        few = self.train.batch(ids[torch.arange(width) % len(ids)])
        block = gradients(self.model, self.model.place(few))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return ConjugateGradient(max_iterations=1).prepare(operator).solve(block, 1e-3)

    def scan(self, ids: Tensor, width: int) -> object:
        """Score some examples along some directions, made here as they count in its memory."""
        directions = vectors.random(self.model.parameters, width, seed=0)
        return scan(self.model, self.seen, directions, ids=ids, batch_size=len(ids))

    def neighbours(self, ids: Tensor, width: int = 1) -> object:
        """Read what neighbours are found by."""
        batch = self.model.place(self.seen.batch(ids))
        with torch.no_grad():
            return self.model.outputs(self.model.parameters, batch.inputs)

    def vectors(self, width: int) -> vectors.Block:
        """Return random vectors, of the size that gradients have; drawn once."""
        if self._drawn is None or vectors.width(self._drawn) != width:
            self._drawn = vectors.random(self.model.parameters, width, seed=0)
        return self._drawn

    def seconds(self, step: Step, ids: Tensor, width: int) -> float:
        """Time a step on some examples."""
        self.seen.batch(ids)  # the frozen layers of a sample do not count
        start = time.perf_counter()
        step(ids, width)
        if self.model.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start
