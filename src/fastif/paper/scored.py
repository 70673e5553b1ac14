"""Points that enough training points help and enough harm, with the scores of each system that finds them.

A *system* is a solver and a number of candidates: the paper's fast ones score the k training points that are nearest
to a query by features, the full one scores all; a variant does one thing otherwise. Knows nothing of what is done with
the points.
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
from fastif.paper.variants import PAPERS, Variant

Row = tuple[Tensor, Tensor]  # the scores of a query, and of which training points they are
TRIES = 5  # times as many points as are wanted are drawn, to find some with enough of both signs


@dataclass(frozen=True)
class System:
    """How influence is computed: with which solver and seed, for the k nearest training points or (None) for all."""

    name: str
    solver: SolverSettings
    seed: int
    k: int | None = None
    variant: Variant = PAPERS

    def scores(self, context: Context, model: TaskModel, queries: TextTable, which: str) -> fastif.Scores:
        """Return the scores of the candidates of each query; `which` queries they are names what is kept.

        All training points are scored: what a solution costs is the most of it, and systems that differ in their
        candidates alone share it.
        """
        options = self.variant.options(self.solver, self.seed)

        def make() -> Tensors:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", fastif.ConvergenceWarning)  # J is that of the settings
                return {"values": context.explainer(model, **options).scores(queries).values}

        values = context.piece(f"scores of all by {options} of {which}", make)["values"]
        everyone = torch.arange(len(model.train)).expand_as(values)
        if self.variant.scan or self.k is None or self.k >= len(model.train):
            return fastif.Scores(values, everyone)
        nearest = fastif.Nearest(self.k, by=self.variant.by)
        plain = context.explainer(model, solver=fastif.Identity(), candidates=nearest)
        ids = context.piece(
            f"candidates by {nearest} of {which}", lambda: {"ids": plain.scores(queries).train_ids.clone()}
        )["ids"]
        return fastif.Scores(values.gather(1, ids), ids)


@dataclass(frozen=True)
class Scored:
    """Points, and for each system the scores of its candidates; `which` they are is a part of the name of pieces."""

    points: Points
    scores: dict[str, fastif.Scores]
    tried: int
    which: str


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
        found: dict[str, dict[int, dict[str, Row]]] = {kind: {} for kind in KINDS}
        tried = 0
        while any(len(found[kind]) < wanted[kind] for kind in KINDS):
            some: list[int] = []
            for kind, queue in queues.items():
                missing = wanted[kind] - len(found[kind])
                if missing and not queue:
                    self._give_up(kind, len(found[kind]), wanted[kind], len(drawn.of(kind)))
                some += queue[:missing]
                queues[kind] = queue[missing:]
            scores = {
                system.name: system.scores(self.context, self.model, drawn.table.take(some), _named(some))
                for system in self.systems
            }
            for place, row in enumerate(some):
                own = {name: (part.values[place], part.train_ids[place]) for name, part in scores.items()}
                if all(enough(values, self.least) for values, _ in own.values()):
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

    def _put_together(self, drawn: Points, found: dict[int, dict[str, Row]], tried: int) -> Scored:
        rows = list(found)
        table = drawn.table.take(rows)
        scores = {
            system.name: fastif.Scores(
                torch.stack([found[row][system.name][0] for row in rows]),
                torch.stack([found[row][system.name][1] for row in rows]),
            )
            for system in self.systems
        }
        return Scored(Points(table, self.model.examples(table), drawn.right[rows]), scores, tried, _named(rows))

    def _give_up(self, kind: str, found: int, wanted: int, drawn: int) -> None:
        raise DataError(
            f"of {drawn} points that {self.model.name} predicts {kind}, {found} have at least {self.least} helpful and "
            f"{self.least} harmful training points among the candidates of every system, and {wanted} are wanted. Take "
            "more candidates, or remove fewer."
        )


def _named(rows: list[int]) -> str:
    return f"points {rows}"


def enough(values: Tensor, least: int) -> bool:
    """Return whether at least so many training points help, and so many harm.

    >>> enough(torch.tensor([-1.0, 2.0, 0.0]), 1), enough(torch.tensor([1.0, 2.0]), 1)
    (True, False)
    """
    return min(int((values < 0).sum()), int((values > 0).sum())) >= least
