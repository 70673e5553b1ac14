"""Scanner: what is made of each training example, scores and keys, by this process alone or as one of a team.

Knows the model, its training data as seen from above the frozen layers, and how work is kept; not what the scores are
for.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from fastif import vectors
from fastif.candidates import Ends, Nearest, Neighbours, PartHolder, Parts, SharedIndex
from fastif.candidates.parts import Ask
from fastif.curvature import CurvatureOperator
from fastif.data import Examples
from fastif.decay import WeightDecay
from fastif.distributed import Duties, Leader, Team, share_of, work
from fastif.keeping import Tensors, nothing_kept
from fastif.pieces import Make, Pieces
from fastif.progress import Progress, offset, silent
from fastif.resources import Resources
from fastif.scoring import Choices, scan
from fastif.vectors import Block

BYTES = 2**28  # of scores that are held at a time where only the strongest are wanted
TOGETHER = {"cpu": 2048, "cuda": 2**16}  # examples that are worked on between two times that something is kept


class Scanner:
    """Scores and keys of the training data.

    Args:
        seen: the training data, as seen from above the frozen layers.
        resources: the model, and how it is worked with.
        pieces: where finished parts are kept.
        batch_size: examples that go through the model together.
        progress: hears how far it is.
        team: this process among others, None if there are none.
        decay: what the gradients of training examples have of weight decay. It adds one number along each direction,
            which comes on top of what is scored, kept or sent: pieces are the same wherever weight decay stands.
    """

    def __init__(
        self,
        seen: Examples,
        resources: Resources,
        *,
        pieces: Pieces,
        batch_size: int,
        progress: Progress,
        team: Team | None,
        decay: WeightDecay,
    ) -> None:
        self._decay = decay
        self._seen, self._resources, self._pieces = seen, resources, pieces
        self._batch_size, self._progress, self._team = batch_size, progress, team
        self._choices = Choices(resources.model, seen)
        self._together = TOGETHER["cuda" if resources.model.device.type == "cuda" else "cpu"]
        self.leader = Leader(team, len(seen)) if team is not None and team.leads else None

    @contextmanager
    def led(self, operator: CurvatureOperator, nearest: Nearest | None = None) -> Iterator[bool]:
        """Work as one of a team: within this context the leader asks, and gets True; others get False at the end.

        `nearest` says how candidates are chosen, where every process holds a part of their index.
        """
        if self._team is None:
            yield True
            return
        asked_for: dict[str, Callable[..., Sequence[Tensors]]] = {
            "scan": self._scored_for_leader,
            "ends": self._ends_for_leader,
            "keys": self._keys,
        }
        in_parts = nearest is not None and isinstance(nearest.index, SharedIndex)
        of_shares = self._holding(nearest)[1] if nearest is not None and in_parts else {}
        duties = Duties(operator, len(self._seen), self._together, asked_for, self._resources.working, of_shares)
        if self.leader is None:
            work(self._team, duties)
            yield False
            return
        with self.leader.leading(duties):
            yield True

    def scan(
        self, directions: Block, ids: Tensor | None, notes: list[str] | None = None, *, exact: bool = False
    ) -> Tensor:
        """Score, and add to the notes how that was done; `exact` never takes half precision."""
        if notes is not None:
            notes.append(self._choices.of(directions).note)
        wanted = self._seen.everyone() if ids is None else ids
        what = "exact scores" if exact else "scores"
        table: Tensor | None = None
        decay = self._decay.along(directions)

        def make(chunks: Sequence[Tensor], before: int) -> list[Tensors]:
            progress = offset(self._progress, before, len(wanted))
            return self._scored(chunks, directions, exact=exact, progress=progress)

        for positions, part in self._over("scan", what, directions, wanted, make, exact=exact):
            values = _shifted(part["values"], decay)
            if len(positions) == len(wanted):  # all of them in their order, which need not be copied
                table = values
                continue
            if table is None:
                table = values.new_empty(vectors.width(directions), len(wanted))
            table[:, positions] = values
        return torch.empty(vectors.width(directions), 0, dtype=vectors.dtype(directions)) if table is None else table

    def _over(
        self, duty: str, what: str, directions: Block, wanted: Tensor, make: Make, **given: Any
    ) -> Iterator[tuple[Tensor, Tensors]]:
        """Yield what is made of examples, chunk by chunk: by this process alone, or by each of its own examples."""
        if self.leader is None:
            how = {"total": len(self._seen), "together": self._together}
            yield from self._pieces.over_examples(what, directions, wanted, **how, make=make)
            return
        sent, done = {"directions": vectors.flatten(directions)}, 0
        self._progress("scoring", 0, len(wanted))
        for positions, part in self.leader.over_examples(
            duty, wanted, self._pieces.named(what, directions, wanted), sent, **given
        ):
            yield positions, part
            done += len(positions)
            self._progress("scoring", done, len(wanted))

    def scan_ends(self, directions: Block, ids: Tensor | None, count: int, *, notes: list[str]) -> Ends:
        """Return the `count` smallest and largest scores along each direction: no more is held, sent or kept."""
        notes.append(self._choices.of(directions).note)
        wanted = self._seen.everyone() if ids is None else ids
        found, what = Ends(count), f"{count} scores of each end"

        def make(chunks: Sequence[Tensor], before: int) -> list[Tensors]:
            return self._ends_of(chunks, directions, count, offset(self._progress, before, len(wanted)))

        for _, part in self._over("ends", what, directions, wanted, make, count=count):
            found.add(part["values"], part["ids"])
        found.values = _shifted(found.values, self._decay.along(directions))  # the same for all: none is less of an end
        return found

    def _ends_of(
        self, chunks: Sequence[Tensor], directions: Block, count: int, progress: Progress = silent
    ) -> list[Tensors]:
        """Score the examples of some chunks, and hold the strongest of each chunk alone."""
        width, found, done = vectors.width(directions), [Ends(count) for _ in chunks], 0
        numbers = torch.cat([torch.full_like(ids, number) for number, ids in enumerate(chunks)])
        every, at_once = torch.cat(list(chunks)), max(1, BYTES // (width * vectors.dtype(directions).itemsize))
        for ids, chunk in zip(every.split(at_once), numbers.split(at_once), strict=True):
            progress_of_some = offset(progress, done, len(every))
            values = self._scored([ids], directions, exact=False, progress=progress_of_some)[0]["values"]
            for number in chunk.unique().tolist():
                mine = chunk == number
                found[number].add(values[:, mine], ids[mine].expand(width, -1))
            done += len(ids)
        return [{"values": each.values, "ids": each.ids} for each in found]

    def _ends_for_leader(self, chunks: Sequence[Tensor], sent: Tensors, *, count: int) -> list[Tensors]:
        return self._ends_of(chunks, vectors.unflatten(sent["directions"], self._resources.model.parameters), count)

    def _scored(
        self, chunks: Sequence[Tensor], directions: Block, *, exact: bool, progress: Progress = silent
    ) -> list[Tensors]:
        """Score the examples of some chunks, all of them together."""
        values = scan(
            self._resources.model,
            self._seen,
            directions,
            ids=torch.cat(list(chunks)),
            batch_size=self._batch_size,
            progress=progress,
            choice=self._choices.of(directions),
            half=None if exact else self._resources.half,
        )
        return [{"values": part.contiguous()} for part in values.split([len(ids) for ids in chunks], dim=1)]

    def _scored_for_leader(self, chunks: Sequence[Tensor], sent: Tensors, *, exact: bool) -> list[Tensors]:
        """Score some examples along directions that were sent as one matrix."""
        directions = vectors.unflatten(sent["directions"], self._resources.model.parameters)
        return self._scored(chunks, directions, exact=exact)

    def index(self, nearest: Nearest) -> Neighbours:
        """Return the index of the training data's keys, which every process of a team makes of its own examples."""
        how: dict[str, Any] = {"batch_size": self._batch_size, "progress": self._progress}
        if isinstance(nearest.index, SharedIndex):
            holder, duties = self._holding(nearest)
            alone: Ask = lambda what, sent, **given: [duties[what](sent, **given)]  # noqa: E731 - a line says it
            how["made"] = Parts(alone if self.leader is None else self.leader.of_each, holder, nearest.index)
        elif self.leader is not None:
            asked = {"by": nearest.by, "features": nearest.features}
            made = self.leader.over_examples("keys", self._seen.everyone(), nothing_kept, {}, **asked)
            how["made"] = (part for _, part in made)
        return nearest.prepare(self._resources.model, self._seen, **how)

    def _holding(self, nearest: Nearest) -> tuple[PartHolder, dict[str, Callable[..., Tensors]]]:
        """Return this process's part of an index, and what it can be asked for of it."""
        team, ids = self._team, self._seen.everyone()
        mine = ids if team is None else share_of(team, self._seen).of(ids)
        keys_of = nearest.keys_maker(self._resources.model, self._seen, batch_size=self._batch_size)
        name = "part-0-of-1" if team is None else f"part-{team.rank}-of-{team.ranks}"
        holder = PartHolder(nearest.index, mine, keys_of, name=name)
        return holder, {"index": holder.build, "search": holder.search}

    def _keys(self, chunks: Sequence[Tensor], _: Tensors, *, by: Any, features: str | None) -> list[Tensors]:
        """Return the keys of some examples, for the index of a team's leader."""
        nearest = Nearest(1, by=by, features=features)
        model, size = self._resources.model, self._batch_size
        return [nearest.keys_of(model, self._seen, ids, batch_size=size) for ids in chunks]


def _shifted(values: Tensor, by: Tensor | None) -> Tensor:
    """Add a number to each row; what was given may be kept somewhere, and is left as it is."""
    return values if by is None else values + by.to(values)[:, None]
