"""The long steps of an explainer, cut into pieces that can be kept: solutions, and whatever is made of each example.

A piece is told from others by its content: what it is made from, as a hash. Knows how to keep (keeping.py) and what a
solution is; knows neither models nor data.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from fastif import vectors
from fastif.fitting import in_parts
from fastif.keeping import Keep, Tensors, content_sha256, nothing_kept
from fastif.shares import Share
from fastif.solvers import PreparedSolver, Solution
from fastif.solvers.base import from_tensors, to_tensors
from fastif.vectors import Block

Make = Callable[[Sequence[Tensor], int], Sequence[Tensors]]
"""(ids of some chunks, how many examples came before them) -> what is made of each chunk"""


class Pieces:
    """Work that is looked up before it is done, where a `keep` was given.

    Args:
        keep: where pieces are kept.
        may_cut: whether a solve may be cut into parts where memory runs out. What the ranks of a team do in step with
            each other may not: if one has no memory left, all end.
    """

    def __init__(self, keep: Keep = nothing_kept, *, may_cut: bool = True) -> None:
        self._keep, self._may_cut = keep, may_cut

    def solve(self, solver: PreparedSolver, block: Block, damping: float, *, samples: bool) -> list[Solution]:
        """Solve for a block of vectors, or for parts of it where memory runs out.

        Unless `samples` are wanted, the several estimates that a solution is the mean of, which take several times as
        much as itself, are let go of part by part.
        """
        solve = partial(self._solved, solver, damping=damping, samples=samples)
        if not self._may_cut:
            return [solve(block)]
        return in_parts(solve, block, vectors.width(block), lambda some, *ends: vectors.select(some, slice(*ends)))

    def _solved(self, solver: PreparedSolver, block: Block, damping: float, samples: bool) -> Solution:
        name = f"solution at damping {damping} of {self._identity(block)}"
        kept = self._keep(name, lambda: to_tensors(solver.solve(block, damping)))
        solution = from_tensors(kept, block, solver.description)
        return solution if samples else replace(solution, samples=None)

    def over_examples(
        self, what: str, made_from: Tensors, ids: Tensor, *, total: int, together: int, make: Make
    ) -> Iterator[tuple[Tensor, Tensors]]:
        """Yield what is made of these of `total` examples, chunk by chunk: (positions in `ids`, that).

        Chunks are those of several processes, and so are their names: what these have finished is found here, and the
        other way round. About `together` examples are worked on at a time.
        """
        if self._keep is nothing_kept:
            yield torch.arange(len(ids), device="cpu"), make([ids], 0)[0]
            return
        keep = self.named(what, made_from, ids)
        chunks = [positions for _, positions in Share(0, 1, total).chunks(ids)]
        names = names_of(chunks)
        missing = [number for number, name in enumerate(names) if not is_kept(keep, name)]
        groups = Groups(dict(enumerate(ids[positions] for positions in chunks)), missing, make, together)
        for number, (name, positions) in enumerate(zip(names, chunks, strict=True)):
            yield positions, keep(name, lambda number=number: groups.take(number))  # type: ignore[misc]

    def named(self, what: str, made_from: Tensors, ids: Tensor) -> Keep:
        """Return how pieces of something are kept, their names made of what it is made from."""
        name = f"{what} of {self._identity({**made_from, 'ids': ids})}"
        return lambda part, make: self._keep(f"{name} {part}", make)

    def _identity(self, tensors: Tensors) -> str:
        """Return what tells a piece from others; a hash is not worth its time where nothing is kept."""
        return "" if self._keep is nothing_kept else content_sha256(tensors)


class Groups:
    """What is asked for chunk by chunk, made for several chunks at a time: a GPU has little to do with one.

    Which chunks go together does not depend on what is missing, and a group is made whole even if one of it is: batches
    are cut from groups, and other batches round otherwise. A run that was killed has the same bytes so, if it goes on
    with as many processes and the same size of batches.

    Args:
        chunks: the examples of all chunks.
        missing: the numbers of those that will be asked for.
        make: makes it.
        together: about as many examples are worked on at a time.
    """

    def __init__(self, chunks: Mapping[int, Tensor], missing: Collection[int], make: Make, together: int) -> None:
        self._chunks, self._missing, self._make = chunks, set(missing), make
        self._made: dict[int, Tensors] = {}
        self._group_of: dict[int, tuple[list[int], int]] = {}  # with how many examples come before it
        group: list[int] = []
        start = done = 0
        for number, ids in chunks.items():
            if done + len(ids) - start > together:
                group, start = [], done
            group.append(number)
            self._group_of[number] = group, start
            done += len(ids)

    def take(self, number: int) -> Tensors:
        """Return what is made of a chunk; it is not held any longer."""
        if number not in self._made:
            group, before = self._group_of[number]
            made = self._make([self._chunks[each] for each in group], before)
            self._made |= {each: tensors for each, tensors in zip(group, made, strict=True) if each in self._missing}
        return self._made.pop(number)


def names_of(chunks: Sized) -> list[str]:
    """Return the names of the pieces of so many chunks."""
    return [f"chunk {number} of {len(chunks)}" for number in range(len(chunks))]


def is_kept(keep: Keep, name: str) -> bool:
    """Whether a piece was kept before; it is not held, as all of them together may be large."""

    def make() -> Tensors:
        raise _NotKeptError

    try:
        keep(name, make)
    except _NotKeptError:
        return False
    return True


class _NotKeptError(Exception):
    """A piece was looked for, and is not there."""
