"""The long steps of an explainer, cut into pieces that can be kept: solutions, and whatever is made of each example.

A piece is told from others by its content: what it is made from, as a hash. Knows how to keep (keeping.py) and what a
solution is; knows neither models nor data.
"""

from collections.abc import Callable

from torch import Tensor

from fastif.keeping import Keep, Tensors, content_sha256, nothing_kept
from fastif.solvers import PreparedSolver, Solution
from fastif.solvers.base import from_tensors, to_tensors
from fastif.vectors import Block

KEPT_EXAMPLES = 8192  # what is made of so many examples is one piece


class Pieces:
    """Work that is looked up before it is done, where a `keep` was given."""

    def __init__(self, keep: Keep = nothing_kept) -> None:
        self._keep = keep

    def solve(self, solver: PreparedSolver, block: Block, damping: float) -> Solution:
        """Solve for a block of vectors."""
        name = f"solution at damping {damping} of {self._identity(block)}"
        kept = self._keep(name, lambda: to_tensors(solver.solve(block, damping)))
        return from_tensors(kept, block, solver.description)

    def over_examples(
        self, what: str, made_from: Tensors, ids: Tensor, make: Callable[[Tensor, int], Tensors]
    ) -> list[Tensors]:
        """Return what is made of all these examples, some after others: `make(ids of some, how many before them)`."""
        parts: list[Tensors] = []
        keep, done = self.named(what, made_from, ids), 0
        for some in ids.split(len(ids) if self._keep is nothing_kept else KEPT_EXAMPLES):
            parts.append(keep(f"from {done}", lambda some=some, done=done: make(some, done)))  # type: ignore[misc]
            done += len(some)
        return parts

    def named(self, what: str, made_from: Tensors, ids: Tensor) -> Keep:
        """Return how pieces of something are kept, their names made of what it is made from."""
        name = f"{what} of {self._identity({**made_from, 'ids': ids})}"
        return lambda part, make: self._keep(f"{name} {part}", make)

    def _identity(self, tensors: Tensors) -> str:
        """Return what tells a piece from others; a hash is not worth its time where nothing is kept."""
        return "" if self._keep is nothing_kept else content_sha256(tensors)
