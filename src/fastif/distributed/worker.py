"""What every process does of the work, and the loop of those that are led.

The leader does its own share by the same functions. Knows an operator, solvers that repeat, and how examples are
worked on; not why.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from fastif import vectors
from fastif.curvature import CurvatureOperator, Way
from fastif.data import Examples
from fastif.distributed.team import Team
from fastif.errors import FastifError
from fastif.held import Held
from fastif.keeping import Tensors
from fastif.shares import Share
from fastif.solvers.lissa import LiSSA, PreparedLiSSA
from fastif.solvers.paper_lissa import PaperLiSSA, PreparedPaperLiSSA
from fastif.vectors import Block

MakeOf = Callable[..., Tensors]  # (ids of some examples, tensors that were sent, further words) -> what is made of them


@dataclass(frozen=True)
class Duties:
    """What a process can be asked for.

    Args:
        operator: the curvature over the whole data.
        examples: how many training examples there are.
        of_examples: by name, what is made of examples.
        working: a context to work in.
    """

    operator: CurvatureOperator
    examples: int
    of_examples: dict[str, MakeOf]
    working: Callable[[], AbstractContextManager[None]]

    def part_of(self, ids: Tensor | None) -> CurvatureOperator:
        """Return the operator over some of the data."""
        return self.operator if ids is None else self.operator.over(ids)


def share_of(team: Team, data: Examples) -> Share:
    """Return what this process holds of some data."""
    return Share(team.rank, team.ranks, len(data))


def product(team: Team, operator: CurvatureOperator, way: Way, block: Block) -> Block:
    """Add up this process's part of a product with those of the others: one all-reduce of one flat buffer."""
    flat = vectors.flatten(operator.summed(way, block, share=share_of(team, operator.data)))
    team.sum(flat, "product")
    return vectors.unflatten(flat, operator.model.parameters)


def repeats(team: Team, knobs: Any, operator: CurvatureOperator, block: Block, given: dict[str, float]) -> Block:
    """Make this process's repeats of a solver, and put those of all into one flat buffer by one all-reduce."""
    runs = range(team.rank, knobs.repeats, team.ranks)
    width, like = vectors.width(block), operator.model.parameters
    flat = next(iter(block.values())).new_zeros(knobs.repeats, width, vectors.size(like))
    if len(runs):
        prepared = (PreparedPaperLiSSA if isinstance(knobs, PaperLiSSA) else PreparedLiSSA)(knobs, operator, runs)
        if isinstance(operator.data, Held):
            operator.data.hold(operator.ids[prepared.drawn(**given)])
        flat[runs.start :: runs.step] = vectors.flatten(prepared.iterates(block, **given)).view(len(runs), width, -1)
    team.sum(flat, "repeats")
    return vectors.unflatten(flat.flatten(0, 1), like)


def work(team: Team, duties: Duties) -> None:
    """Do what the leader asks for, until it says that this is the end."""
    operators: dict[str, CurvatureOperator] = {}
    try:
        while True:
            said, tensors = team.hear()
            if said["do"] == "end":
                return
            with duties.working():
                _do(team, duties, operators, said, tensors)
    except FastifError:
        raise
    except Exception as error:
        raise FastifError(f"{type(error).__name__}: {error}") from error


def _do(
    team: Team,
    duties: Duties,
    operators: dict[str, CurvatureOperator],
    said: dict[str, Any],
    tensors: dict[str, Tensor],
) -> None:
    if said["do"] == "operator":
        operators[said["name"]] = duties.part_of(tensors.get("ids"))
    elif said["do"] == "product":
        product(team, operators[said["operator"]], said["way"], _block(duties, tensors))
    elif said["do"] == "repeats":
        knobs = {"LiSSA": LiSSA, "PaperLiSSA": PaperLiSSA}[said["solver"]](**said["knobs"])
        repeats(team, knobs, operators[said["operator"]], _block(duties, tensors), said["given"])
    else:
        waiting: list[Any] = []
        share = Share(team.rank, team.ranks, duties.examples)
        for number, (owner, positions) in enumerate(share.chunks(tensors["ids"])):
            if owner == team.rank and number in said["missing"]:
                some = tensors["ids"][positions]
                made = duties.of_examples[said["do"]](some, tensors, **said["given"])
                waiting += team.give(made)
        for each in waiting:
            each.wait()


def _block(duties: Duties, tensors: dict[str, Tensor]) -> Block:
    return vectors.unflatten(tensors["block"], duties.operator.model.parameters)
