"""What every process does of the work, and the loop of those that are led.

The leader does its own share by the same functions. Knows an operator, solvers that repeat, and how examples are
worked on; not why.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch

from fastif import vectors
from fastif.curvature import CurvatureOperator, Way
from fastif.data import Examples
from fastif.distributed.team import END, Team
from fastif.errors import FastifError
from fastif.held import Held
from fastif.keeping import Tensors
from fastif.pieces import Groups
from fastif.shares import Share
from fastif.solvers.lissa import LiSSA, PreparedLiSSA
from fastif.solvers.paper_lissa import PaperLiSSA, PreparedPaperLiSSA
from fastif.vectors import Block

IDS = "ids"  # of examples, where something is asked for of these alone
# (ids of some chunks of examples, tensors that were sent, further words) -> what is made of each chunk
MakeOf = Callable[..., Sequence[Tensors]]
MakeOfShare = Callable[..., Tensors]  # (tensors that were sent, further words) -> what is made of all that is held


@dataclass(frozen=True)
class Duties:
    """What a process can be asked for.

    Args:
        operator: the curvature over the whole data.
        examples: how many training examples there are.
        together: about how many of them are worked on at a time.
        of_examples: by name, what is made of examples.
        of_shares: by name, what each process makes of all that it holds.
        working: a context to work in.
    """

    operator: CurvatureOperator
    examples: int
    together: int
    of_examples: dict[str, MakeOf]
    working: Callable[[], AbstractContextManager[None]]
    of_shares: dict[str, MakeOfShare] = field(default_factory=dict)


def share_of(team: Team, data: Examples) -> Share:
    """Return what this process holds of some data."""
    return Share(team.rank, team.ranks, len(data))


def product(team: Team, operator: CurvatureOperator, way: Way, block: Block) -> Block:
    """Add up this process's part of a product with those of the others: one all-reduce of one flat buffer."""
    flat = vectors.flatten(operator.summed(way, block, share=share_of(team, operator.data)))
    team.sum(flat, "product")
    return vectors.unflatten(flat, operator.model.parameters)


class Repeats:
    """The repeats of solvers that draw at random; what a solver prepared for one block serves all later ones."""

    def __init__(self, team: Team) -> None:
        self._team = team
        self._prepared: dict[tuple[Any, CurvatureOperator], PreparedPaperLiSSA | PreparedLiSSA] = {}

    def __call__(self, knobs: Any, operator: CurvatureOperator, block: Block, given: dict[str, float]) -> Block:
        """Make this process's repeats, and put those of all into one flat buffer by one all-reduce."""
        team, width, like = self._team, vectors.width(block), operator.model.parameters
        runs = range(team.rank, knobs.repeats, team.ranks)
        flat = next(iter(block.values())).new_zeros(knobs.repeats, width, vectors.size(like))
        if len(runs):
            prepared = self._prepared.get((knobs, operator))
            if prepared is None:
                kind = PreparedPaperLiSSA if isinstance(knobs, PaperLiSSA) else PreparedLiSSA
                prepared = self._prepared[knobs, operator] = kind(knobs, operator.alone(), runs)
            if isinstance(operator.data, Held):
                operator.data.hold(operator.ids[prepared.drawn(**given)])
            mine = vectors.flatten(prepared.iterates(block, **given))
            flat[runs.start :: runs.step] = mine.view(len(runs), width, -1)
        team.sum(flat, "repeats")
        return vectors.unflatten(flat.flatten(0, 1), like)


def work(team: Team, duties: Duties) -> None:
    """Do what the leader asks for, until it says that this is the end."""
    worker = _Worker(team, duties)
    try:
        while True:
            said, sent = team.hear()
            if said["do"] == END:
                return
            with duties.working():
                worker.do(said, sent)
    except FastifError:
        raise
    except Exception as error:
        raise FastifError(f"{type(error).__name__}: {error}") from error


class _Worker:
    """What a process that is led remembers between the things that it is asked for."""

    def __init__(self, team: Team, duties: Duties) -> None:
        self._team, self._duties = team, duties
        self._operators: dict[str, CurvatureOperator] = {}
        self._repeats = Repeats(team)

    def do(self, said: dict[str, Any], sent: Tensors) -> None:
        """Do what the leader said, with the tensors that it sent."""
        if said["do"] == "operator":
            whole = self._duties.operator
            self._operators[said["name"]] = whole.over(sent[IDS]) if IDS in sent else whole
        elif said["do"] == "product":
            product(self._team, self._operators[said["operator"]], said["way"], self._block(sent))
        elif said["do"] == "repeats":
            knobs = {"LiSSA": LiSSA, "PaperLiSSA": PaperLiSSA}[said["solver"]](**said["knobs"])
            self._repeats(knobs, self._operators[said["operator"]], self._block(sent), said["given"])
        elif said["do"] in self._duties.of_shares:
            for each in self._team.give(self._duties.of_shares[said["do"]](sent, **said["given"])):
                each.wait()
        else:
            self._make_of_examples(said, sent)

    def _make_of_examples(self, said: dict[str, Any], sent: Tensors) -> None:
        """Make what is missing of this process's chunks, and send each as soon as it is made."""
        make, missing = self._duties.of_examples[said["do"]], set(said["missing"])
        waiting: list[Any] = []
        ids = sent[IDS] if IDS in sent else torch.arange(self._duties.examples)
        share = Share(self._team.rank, self._team.ranks, self._duties.examples)
        chunks = enumerate(share.chunks(ids))
        mine = {number: ids[some] for number, (owner, some) in chunks if owner == share.rank}
        groups = Groups(mine, missing, lambda some, _: make(some, sent, **said["given"]), self._duties.together)
        for number in sorted(missing & mine.keys()):
            waiting += self._team.give(groups.take(number))
        for each in waiting:
            each.wait()

    def _block(self, sent: Tensors) -> Block:
        return vectors.unflatten(sent["block"], self._duties.operator.model.parameters)
