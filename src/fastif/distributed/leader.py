"""Leader: the other processes as the one that leads them sees them; the `Helpers` of shares.py."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from fastif import vectors
from fastif.curvature import CurvatureOperator, Way
from fastif.distributed import worker
from fastif.distributed.team import Team
from fastif.distributed.worker import Duties
from fastif.keeping import Keep, Tensors, content_sha256
from fastif.pieces import Groups, is_kept, names_of
from fastif.shares import Share
from fastif.vectors import Block


class Leader:
    """Asks all processes, itself among them, for their parts."""

    def __init__(self, team: Team, total: int) -> None:
        self._team, self._total = team, total
        self._duties: Duties | None = None
        self._known: set[str] = set()  # operators that the others were told of
        self._repeats = worker.Repeats(team)

    @contextmanager
    def leading(self, duties: Duties) -> Iterator[None]:
        """Lead; at the end the others are told that there is nothing more to do."""
        self._duties = duties
        yield
        self._team.dismiss()

    def product(self, operator: CurvatureOperator, way: Way, block: Block) -> Block:
        """Return the sum over all examples of an operator of their curvature times each vector of a block."""
        self._team.tell({"do": "product", "operator": self._introduced(operator), "way": way}, _flat(block))
        return worker.product(self._team, operator, way, block)

    def repeats(self, solver: Any, operator: CurvatureOperator, block: Block, **given: float) -> Block:
        """Return the iterates of all repeats of a solver that draws at random, repeats first."""
        said = {"operator": self._introduced(operator), "solver": type(solver).__name__, "knobs": asdict(solver)}
        self._team.tell({"do": "repeats", **said, "given": given}, _flat(block))
        return self._repeats(solver, operator, block, given)

    def over_examples(
        self, what: str, ids: Tensor, keep: Keep, tensors: Tensors, **given: Any
    ) -> Iterator[tuple[Tensor, Tensors]]:
        """Yield what is made of these examples, chunk by chunk: (positions in `ids`, that).

        What is found kept is not made again; what is made is kept as soon as it is here.
        """
        assert self._duties is not None
        chunks = list(Share(self._team.rank, self._team.ranks, self._total).chunks(ids))
        names = names_of(chunks)
        missing = [number for number, each in enumerate(names) if not is_kept(keep, each)]
        if missing:
            # all examples are known by their number: their 8 bytes each would be the most of what is sent
            asked = {} if torch.equal(ids, torch.arange(self._total)) else {worker.IDS: ids}
            self._team.tell({"do": what, "missing": missing, "given": given}, {**asked, **tensors})
        make = self._duties.of_examples[what]
        mine = {number: ids[some] for number, (owner, some) in enumerate(chunks) if owner == self._team.rank}
        groups = Groups(mine, missing, lambda some, _: make(some, tensors, **given), self._duties.together)
        for number, (name, (owner, positions)) in enumerate(zip(names, chunks, strict=True)):
            if owner == self._team.rank:
                yield positions, keep(name, lambda number=number: groups.take(number))  # type: ignore[misc]
            else:
                yield positions, keep(name, lambda owner=owner: self._team.take(owner))  # type: ignore[misc]

    def of_each(self, what: str, tensors: Tensors, **given: Any) -> list[Tensors]:
        """Return what each process makes of all that it holds, by rank."""
        assert self._duties is not None
        self._team.tell({"do": what, "given": given}, tensors)
        mine = self._duties.of_shares[what](tensors, **given)
        return [mine if rank == self._team.rank else self._team.take(rank) for rank in range(self._team.ranks)]

    def _introduced(self, operator: CurvatureOperator) -> str:
        """Return the name of an operator, which the others are told of once."""
        whole = operator.examples == len(operator.data)
        name = "all" if whole else content_sha256({"ids": operator.ids})
        if name not in self._known:
            self._team.tell({"do": "operator", "name": name}, None if whole else {worker.IDS: operator.ids})
            self._known.add(name)
        return name


def _flat(block: Block) -> dict[str, Tensor]:
    return {"block": vectors.flatten(block)}
