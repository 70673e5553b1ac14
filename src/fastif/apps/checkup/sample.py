"""A few real examples of a training set, seen as an explainer would see them, and the steps of one on them.

The frozen layers are run for these few alone. Every step is the engine's own code, on fewer examples and vectors and by
the route that it takes for all, so that what is measured of it is what a run will do. Knows no machine and makes no
estimate.
"""

import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fastif import vectors
from fastif.curvature import EXAMPLES_AT_ONCE, CurvatureOperator, Way
from fastif.data import Examples
from fastif.errors import ConvergenceWarning
from fastif.jacobian import CHECKED_EXAMPLES, Jacobian
from fastif.model import TorchModel
from fastif.prefix import Prefixed, PrefixModel
from fastif.scoring import Choice, choose, scan
from fastif.solvers.auto import choose_solver
from fastif.solvers.cg import ConjugateGradient
from fastif.solvers.kept_rows import KeptRows
from fastif.solvers.woodbury import Woodbury
from fastif.spectrum import lanczos_spectrum

Step = Callable[[Tensor, int], object]


class SampledStates:
    """The states of the examples that are asked for, computed then and kept."""

    def __init__(self, model: PrefixModel, examples: Examples) -> None:
        self._model, self._examples = model, examples
        self._kept: dict[tuple[int, ...], Tensor] = {}

    device = torch.device("cpu")

    def batch(self, ids: Tensor, length: int | None = None) -> Tensor:
        """Return the states of some examples, padded as their tokens are."""
        key = tuple(ids.tolist())
        if key not in self._kept:
            with torch.no_grad():
                self._kept[key] = self._model.encode(self._model.place(self._examples.batch(ids))).cpu()
        return self._kept[key]


class PartOfCurvature(CurvatureOperator):
    """The curvature over a few examples, all in one batch, by a route that was chosen for all of them."""

    def __init__(self, whole: CurvatureOperator, ids: Tensor, way: Way) -> None:
        super().__init__(whole.model, whole.data, ids=ids, batch_size=len(ids))
        self.jacobian = whole.jacobian
        self._way = way

    def way(self, width: int) -> Way:
        """Return what was chosen."""
        return self._way


class Sample:
    """The steps of an explainer, each a function of some examples and a number of vectors.

    `solver` is what `solver="auto"` stands for here, `curvature` the operator that it works on, perhaps over a part of
    the data.
    """

    def __init__(self, model: TorchModel, train: Examples, *, batch_size: int = 64) -> None:
        self.model, self.train = model, train
        self._drawn: vectors.Block | None = None
        self._choices: dict[int, Choice] = {}
        self.has_prefix = isinstance(model, PrefixModel) and model.prefix is not None
        states: Any = SampledStates(model, train) if isinstance(model, PrefixModel) and self.has_prefix else None
        self.seen = Prefixed(train, lambda: states) if self.has_prefix else train
        self.curvature = CurvatureOperator(model, self.seen, batch_size=batch_size)
        self.solver = choose_solver(self.curvature)
        if isinstance(self.solver, ConjugateGradient | Woodbury):
            self.curvature = self.curvature.subsample(self.solver.subsample, seed=self.solver.seed)

    def needs_route(self, queries: int) -> bool:
        """Return whether an explainer looks for a way to Jacobian rows."""
        return queries >= CHECKED_EXAMPLES or self.curvature.jacobian.examples_at_once >= EXAMPLES_AT_ONCE

    def route(self) -> object:
        """Look for a way to Jacobian rows, as is done once, also where one was found."""
        few = torch.arange(min(CHECKED_EXAMPLES, self.curvature.examples))
        found, self.model.routes = self.model.routes, {}
        try:
            return Jacobian(self.model, self.curvature.batch(few)).route
        finally:
            self.model.routes = found

    def encode(self, ids: Tensor, width: int = 1) -> object:
        """Run the frozen layers."""
        assert isinstance(self.model, PrefixModel)
        with torch.no_grad():
            return self.model.encode(self.model.place(self.train.batch(ids)))

    def product(self, ids: Tensor, width: int, way: Way = "vectors") -> object:
        """Multiply some vectors with the curvature."""
        return PartOfCurvature(self.curvature, ids, way)(self.vectors(width))

    def rows(self, ids: Tensor, width: int = 1) -> object:
        """Make all Jacobian rows of some examples."""
        batch = self.model.place(self.seen.batch(ids))
        return [signs for _, signs in self.curvature.jacobian.signed_rows(batch)]

    def spectrum(self, ids: Tensor, width: int, way: Way = "vectors") -> object:
        """Take two steps of the search for the damping."""
        return lanczos_spectrum(PartOfCurvature(self.curvature, ids, way), probes=width, steps=2)

    def solve(self, ids: Tensor, width: int, way: Way = "vectors") -> object:
        """Take the gradients of some queries and one step of the solve."""
        operator = PartOfCurvature(self.curvature, ids, way)
        few = self.train.batch(ids[torch.arange(width) % len(ids)])
        block = operator.jacobian.gradients(self.model.place(few))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return ConjugateGradient(max_iterations=1).prepare(operator).solve(block, 1e-3)

    def keep(self, ids: Tensor, width: int = 1) -> object:
        """Keep the Jacobian rows of some examples."""
        return KeptRows(PartOfCurvature(self.curvature, ids, "factors"))

    def solve_by_rows(self, ids: Tensor, width: int) -> object:
        """Keep the rows of some examples, and multiply some vectors with them as a solve does."""
        rows = KeptRows(PartOfCurvature(self.curvature, ids, "factors"))
        block = self.vectors(width)
        image = rows.summed(rows.times(block), block)
        return rows.times(image)

    def scan(self, ids: Tensor, width: int) -> object:
        """Score some examples along some directions, made here as they count in its memory."""
        directions = vectors.random(self.model.parameters, width, seed=0)
        return scan(self.model, self.seen, directions, ids=ids, batch_size=len(ids), choice=self.choice(width))

    def neighbours(self, ids: Tensor, width: int = 1) -> object:
        """Read what neighbours are found by."""
        batch = self.model.place(self.seen.batch(ids))
        with torch.no_grad():
            return self.model.outputs(self.model.parameters, batch.inputs)

    def choice(self, width: int) -> Choice:
        """Return how so many directions are scored; found once."""
        if width not in self._choices:
            self._choices[width] = choose(self.model, self.seen, self.vectors(width))
        return self._choices[width]

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
