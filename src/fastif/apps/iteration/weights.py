r"""AtWeights: what there is to know of a model at some weights: which examples help some anchors, and Newton steps.

The start and every step after it are such places. They share the pool, the data that H is the mean over, and the
damping that was found at the start. Knows explainers, and no walk.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from fastif import ranking
from fastif.apps.correction import Parameters, batch_size
from fastif.apps.iteration.plan import Kind, Plan
from fastif.candidates import Nearest, Neighbours
from fastif.curvature import CurvatureOperator
from fastif.data import Examples
from fastif.explainer import Explainer
from fastif.model import TorchModel
from fastif.progress import silent
from fastif.solvers import Auto, Identity, PreparedSolver, Solver
from fastif.vectors import Vector


@dataclass(eq=False)
class PreparedOnce:
    """A solver that prepares for the first H that it meets, and gives that to all who come after.

    Where another was prepared for an H close by, what only makes it faster is taken from there (`moved`).
    """

    solver: Solver
    close_by: "PreparedOnce | None" = None
    prepared: PreparedSolver | None = None

    def prepare(self, operator: CurvatureOperator) -> PreparedSolver:
        """Return what was prepared, or prepare it."""
        if self.prepared is None:
            moved = None if self.close_by is None else getattr(self.close_by.prepared, "moved", None)
            self.prepared = self.solver.prepare(operator) if moved is None else moved(operator)
        return self.prepared


@dataclass
class Ground:
    """What all weights share.

    Args:
        model: at the start.
        pool: the examples that steps may be taken on, as seen from above the frozen layers.
        hessian_data: what H is the mean over; None for the pool.
        plan: the knobs.
        options: of explainers: solver, damping, batch_size, and so on.
    """

    model: TorchModel
    pool: Examples
    hessian_data: Examples | None
    plan: Plan
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def start(self) -> "AtWeights":
        """The model as it was given."""
        solver = self.options.get("solver", "auto")
        return AtWeights(self, self.model, PreparedOnce(Auto() if solver == "auto" else solver))

    def at(self, parameters: Parameters) -> "AtWeights":
        """The model at other weights, with a curvature of its own unless that of the start is to be kept."""
        start = self.start.solver
        solver = start if self.plan.curvature == "start" else PreparedOnce(start.solver, close_by=start)
        return AtWeights(self, self.model.at(parameters), solver)

    @cached_property
    def damping(self) -> float:
        r"""$\lambda$, found at the start; the same for all weights."""
        return self._found.damping.value or 0.0

    @cached_property
    def _found(self) -> Explainer:
        """The explainer at the start that finds the damping, if it is not given."""
        return self.start.explainer(damping=self.options.get("damping", "auto"))

    @cached_property
    def summary(self) -> str:
        """In one line, how examples are ranked at the start."""
        if self.plan.ranked_by == "retrain":
            return self._found.summary()
        return self.start.plain_explainer().summary()

    @cached_property
    def neighbours(self) -> Neighbours:
        """The keys of the pool at the start, for those that are ranked nearest alone."""
        assert self.plan.nearest is not None
        nearest = Nearest(self.plan.nearest, by=self.plan.nearest_by)
        return nearest.prepare(self.model, self.pool, batch_size=batch_size(self.model))

    def candidates(self, anchors: Examples) -> Tensor | str:
        """Return which examples are ranked: those nearest to the mean of the anchors, or all."""
        if self.plan.nearest is None:
            return "all"
        placed = [self.model.place(batch) for batch in anchors.batches(256)]
        return self.neighbours.select(placed, self.model.losses, reduce="mean").ids(1)[0]


@dataclass(eq=False)
class AtWeights:
    """A model at some weights."""

    ground: Ground
    model: TorchModel
    solver: PreparedOnce

    def chosen(self, kind: Kind, anchors: Examples) -> Tensor:
        """Return the examples that help or harm the mean of the anchors most; fewer where fewer do."""
        plan, candidates = self.ground.plan, self.ground.candidates(anchors)
        if plan.ranked_by == "retrain":
            explainer = self.explainer(damping=self.ground.damping, candidates=candidates)
        else:
            explainer = self.plain_explainer(candidates=candidates)
        scores = explainer.scores(anchors, reduce="mean")
        ranked = ranking.helpful if kind == "helpful" else ranking.harmful
        return ranked(scores.values[0], scores.train_ids[0], plan.examples).ids

    def solved(self, vector: Vector) -> Vector:
        r"""Return $(H + \lambda I)^{-1}$ times a vector."""
        damping = self.ground.damping
        prepared = self.solver.prepared
        if prepared is None:
            self.explainer(damping=damping).damping  # noqa: B018 - checks the curvature and prepares the solver
            prepared = self.solver.prepared
        assert prepared is not None
        solution = prepared.solve({name: tensor[None] for name, tensor in vector.items()}, damping)
        return {name: tensor[0] for name, tensor in solution.value.items()}

    def explainer(self, **chosen: Any) -> Explainer:
        """Return an explainer that takes H into account."""
        return self._explainer(solver=self.solver, **chosen)

    def plain_explainer(self, **chosen: Any) -> Explainer:
        """Return one that does not."""
        return self._explainer(solver=Identity(), damping="auto", **chosen)

    def _explainer(self, **chosen: Any) -> Explainer:
        given = {**self.ground.options, "prefix_cache": None, "progress": silent, **chosen}
        data = self.ground.hessian_data
        with torch.inference_mode(False):
            return Explainer(self.model, self.ground.pool, hessian_data=data, **given)
