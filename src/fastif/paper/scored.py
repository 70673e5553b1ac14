"""Points that enough training points help and enough harm, with the scores of each system that finds them.

A *system* is a solver and a number of candidates: the paper's fast ones score the k training points that are nearest
to a query by features, the full one scores all. Knows nothing of what is done with the points.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

import fastif
from fastif.errors import DataError
from fastif.integrations.tables import TextTable
from fastif.keeping import Tensors
from fastif.paper.context import Context
from fastif.paper.models import TaskModel
from fastif.paper.points import KINDS, RIGHT, Points
from fastif.paper.solver_settings import SolverSettings

TRIES = 5  # times as many points as are wanted are drawn, to find some with enough of both signs


@dataclass(frozen=True)
class System:
    """How influence is computed: with which solver and seed, for the k nearest training points or (None) for all."""

    name: str
    solver: SolverSettings
    seed: int
    k: int | None = None


@dataclass(frozen=True)
class Scored:
    """Points, and for each system the scores of its candidates."""

    points: Points
    scores: dict[str, fastif.Scores]
    tried: int


@dataclass(frozen=True)
class Search:
    """Looks for points that have at least `least` helpful and as many harmful training points in every system."""

    context: Context
    model: TaskModel
    systems: Sequence[System]
    least: int

    def run(self, *, right: int, wrong: int) -> Scored:
        """Score points in the order that they were drawn in, until there are enough of each kind."""
        wanted = dict(zip(KINDS, (right, wrong), strict=True))
        drawn = self._drawn(wanted)
        queues = {kind: drawn.of(kind) for kind in KINDS}
        found: dict[str, dict[int, dict[str, Tensors]]] = {kind: {} for kind in KINDS}
        tried = 0
        while any(len(found[kind]) < wanted[kind] for kind in KINDS):
            some: list[int] = []
            for kind, queue in queues.items():
                missing = wanted[kind] - len(found[kind])
                if missing and not queue:
                    self._give_up(kind, len(found[kind]), wanted[kind], len(drawn.of(kind)))
                some += queue[:missing]
                queues[kind] = queue[missing:]
            scores = {system.name: self._scores(system, drawn, some) for system in self.systems}
            for place, row in enumerate(some):
                own = {name: {key: each[place] for key, each in part.items()} for name, part in scores.items()}
                if all(enough(part["values"], self.least) for part in own.values()):
                    found[RIGHT if drawn.right[row] else KINDS[1]][row] = own
            tried += len(some)
        return self._put_together(drawn, {row: own for kind in KINDS for row, own in found[kind].items()}, tried)

    def _drawn(self, wanted: dict[str, int]) -> Points:
        """Draw more points than are wanted, as far as there are."""
        table = self.context.data.nli_dev(3)
        correct = self.model.is_right(self.model.examples(self.context.data.some(table)))
        right, wrong = int(correct.sum()), int((~correct).sum())
        counts = [min(TRIES * count, there) for count, there in zip(wanted.values(), (right, wrong), strict=True)]
        return self.context.points(self.model, table, right=counts[0], wrong=counts[1])

    def _scores(self, system: System, drawn: Points, rows: list[int]) -> Tensors:
        """Return values and training ids, (rows, candidates) each, kept as one piece."""
        return self.context.piece(f"scores by {system} of {rows}", lambda: self._score(system, drawn.table.take(rows)))

    def _score(self, system: System, queries: TextTable) -> Tensors:
        context, model = self.context, self.model
        options = {"solver": system.solver.solver(system.seed), "curvature": "hessian"}
        k = None if system.k is None or system.k >= len(model.train) else system.k
        nearest: Tensor | None = None
        if k is not None:
            nearest = context.explainer(model, solver=fastif.Identity()).nearest(queries, k)
            options["candidates"] = nearest.unique()  # in order
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fastif.ConvergenceWarning)  # J is that of the settings
            scores = context.explainer(model, **options).scores(queries)
        if nearest is None:
            return {"values": scores.values, "ids": scores.train_ids}
        places = torch.searchsorted(scores.train_ids[0].contiguous(), nearest)
        return {"values": scores.values.gather(1, places), "ids": nearest}

    def _put_together(self, drawn: Points, found: dict[int, dict[str, Tensors]], tried: int) -> Scored:
        rows = list(found)
        table = drawn.table.take(rows)
        scores = {
            system.name: fastif.Scores(
                torch.stack([found[row][system.name]["values"] for row in rows]),
                torch.stack([found[row][system.name]["ids"] for row in rows]),
            )
            for system in self.systems
        }
        return Scored(Points(table, self.model.examples(table), drawn.right[rows]), scores, tried)

    def _give_up(self, kind: str, found: int, wanted: int, drawn: int) -> None:
        raise DataError(
            f"of {drawn} points that {self.model.name} predicts {kind}, {found} have at least {self.least} helpful and "
            f"{self.least} harmful training points among the candidates of every system, and {wanted} are wanted. Take "
            "more candidates, or remove fewer."
        )


def enough(values: Tensor, least: int) -> bool:
    """Return whether at least so many training points help, and so many harm.

    >>> enough(torch.tensor([-1.0, 2.0, 0.0]), 1), enough(torch.tensor([1.0, 2.0]), 1)
    (True, False)
    """
    return min(int((values < 0).sum()), int((values > 0).sum())) >= least
