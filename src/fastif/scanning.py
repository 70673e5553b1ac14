"""Scanner: what is made of each training example, scores and keys, by this process alone or as one of a team.

Knows the model, its training data as seen from above the frozen layers, and how work is kept; not what the scores are
for.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from fastif import vectors
from fastif.candidates import Ends, Nearest, Neighbours, PartHolder, Parts, SharedIndex
from fastif.candidates.parts import Ask
from fastif.curvature import CurvatureOperator
from fastif.data import Examples
from fastif.distributed import Duties, Leader, Team, share_of, work
from fastif.keeping import Tensors, nothing_kept
from fastif.pieces import Pieces
from fastif.progress import Progress, offset, silent
from fastif.resources import Resources
from fastif.scoring import Choices, scan
from fastif.vectors import Block

BYTES = 2**28  # of scores that are held at a time where only the strongest are wanted
MakeOf = Callable[..., Tensors]


class Scanner:
    """Scores and keys of the training data.

    Args:
        seen: the training data, as seen from above the frozen layers.
        resources: the model, and how it is worked with.
        pieces: where finished parts are kept.
        batch_size: examples that go through the model together.
        progress: hears how far it is.
        team: this process among others, None if there are none.
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
    ) -> None:
        self._seen, self._resources, self._pieces = seen, resources, pieces
        self._batch_size, self._progress, self._team = batch_size, progress, team
        self._choices = Choices(resources.model, seen)
        self.leader = Leader(team, len(seen)) if team is not None and team.leads else None

    @contextmanager
    def led(self, operator: CurvatureOperator, nearest: Nearest | None = None) -> Iterator[bool]:
        """Work as one of a team: within this context the leader asks, and gets True; others get False at the end.

        `nearest` says how candidates are chosen, where every process holds a part of their index.
        """
        if self._team is None:
            yield True
            return
        asked_for: dict[str, MakeOf] = {
            "scan": self._scored_for_leader,
            "ends": self._ends_for_leader,
            "keys": self._keys,
        }
        in_parts = nearest is not None and isinstance(nearest.index, SharedIndex)
        of_shares = self._holding(nearest)[1] if nearest is not None and in_parts else {}
        duties = Duties(operator, len(self._seen), asked_for, self._resources.working, of_shares)
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
        if self.leader is not None:
            return self._scan_together(what, directions, wanted, exact=exact)

        def make(some: Tensor, before: int) -> Tensors:
            progress = offset(self._progress, before, len(wanted))
            return self._scored(some, directions, exact=exact, progress=progress)

        return torch.cat([part["values"] for part in self._pieces.over_examples(what, directions, wanted, make)], 1)

    def _scan_together(self, what: str, directions: Block, wanted: Tensor, *, exact: bool) -> Tensor:
        """Score as one of a team, each process its own examples."""
        assert self.leader is not None
        sent = {"directions": vectors.flatten(directions)}
        table = torch.empty(vectors.width(directions), len(wanted), dtype=vectors.dtype(directions))
        self._progress("scoring", 0, len(wanted))
        kept = self._pieces.named(what, directions, wanted)
        for done, (positions, part) in self.leader.over_examples("scan", wanted, kept, sent, exact=exact):
            table[:, positions] = part["values"]
            self._progress("scoring", done, len(wanted))
        return table

    def scan_ends(self, directions: Block, ids: Tensor | None, count: int, *, notes: list[str]) -> Ends:
        """Return the `count` smallest and largest scores along each direction: no more is held, sent or kept."""
        notes.append(self._choices.of(directions).note)
        wanted = self._seen.everyone() if ids is None else ids
        found, what = Ends(count), f"{count} scores of each end"

        def make(some: Tensor, before: int) -> Tensors:
            return self._ends_of(some, directions, count, offset(self._progress, before, len(wanted)))

        if self.leader is None:
            for part in self._pieces.over_examples(what, directions, wanted, make):
                found.add(part["values"], part["ids"])
            return found
        sent, kept = {"directions": vectors.flatten(directions)}, self._pieces.named(what, directions, wanted)
        for done, (_, part) in self.leader.over_examples("ends", wanted, kept, sent, count=count):
            found.add(part["values"], part["ids"])
            self._progress("scoring", done, len(wanted))
        return found

    def _ends_of(self, ids: Tensor, directions: Block, count: int, progress: Progress = silent) -> Tensors:
        """Score some examples, and hold the strongest alone."""
        width, found, done = vectors.width(directions), Ends(count), 0
        for some in ids.split(max(1, BYTES // (width * vectors.dtype(directions).itemsize))):
            progress_of_some = offset(progress, done, len(ids))
            scored = self._scored(some, directions, exact=False, progress=progress_of_some)["values"]
            found.add(scored, some.expand(width, -1))
            done += len(some)
        return {"values": found.values, "ids": found.ids}

    def _ends_for_leader(self, ids: Tensor, sent: Tensors, *, count: int) -> Tensors:
        return self._ends_of(ids, vectors.unflatten(sent["directions"], self._resources.model.parameters), count)

    def _scored(self, ids: Tensor, directions: Block, *, exact: bool, progress: Progress = silent) -> Tensors:
        """Score some examples."""
        values = scan(
            self._resources.model,
            self._seen,
            directions,
            ids=ids,
            batch_size=self._batch_size,
            progress=progress,
            choice=self._choices.of(directions),
            half=None if exact else self._resources.half,
        )
        return {"values": values}

    def _scored_for_leader(self, ids: Tensor, sent: Tensors, *, exact: bool) -> Tensors:
        """Score some examples along directions that were sent as one matrix."""
        return self._scored(ids, vectors.unflatten(sent["directions"], self._resources.model.parameters), exact=exact)

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
            how["made"] = (part for _, (_, part) in made)
        return nearest.prepare(self._resources.model, self._seen, **how)

    def _holding(self, nearest: Nearest) -> tuple[PartHolder, dict[str, MakeOf]]:
        """Return this process's part of an index, and what it can be asked for of it."""
        team, ids = self._team, self._seen.everyone()
        mine = ids if team is None else share_of(team, self._seen).of(ids)
        keys_of = nearest.keys_maker(self._resources.model, self._seen, batch_size=self._batch_size)
        name = "part-0-of-1" if team is None else f"part-{team.rank}-of-{team.ranks}"
        holder = PartHolder(nearest.index, mine, keys_of, name=name)
        return holder, {"index": holder.build, "search": holder.search}

    def _keys(self, ids: Tensor, _: Tensors, *, by: Any, features: str | None) -> Tensors:
        """Return the keys of some examples, for the index of a team's leader."""
        nearest = Nearest(1, by=by, features=features)
        return nearest.keys_of(self._resources.model, self._seen, ids, batch_size=self._batch_size)
