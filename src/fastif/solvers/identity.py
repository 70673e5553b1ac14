"""Identity: no curvature at all, so that scores are plain gradient dot products.

The answer to "what if I take a gradient step on this example now?", where the other solvers answer "what if I had
trained without it?".
"""

from dataclasses import dataclass

import torch

from fastif import vectors
from fastif.curvature import CurvatureOperator
from fastif.solvers.base import Solution
from fastif.vectors import Block


@dataclass(frozen=True)
class Identity:
    """Return the right-hand side itself; H and damping are never looked at."""

    def prepare(self, operator: CurvatureOperator) -> "Identity":
        """There is nothing to prepare."""
        return self

    @property
    def description(self) -> str:
        """In a few words, how it solves."""
        return "identity (gradient dot product)"

    def spectrum(self) -> None:
        """H is never looked at."""

    def solve(self, block: Block, damping: float) -> Solution:
        """Return the block."""
        converged = torch.ones(vectors.width(block), dtype=torch.bool, device="cpu")
        return Solution(block, converged, None, 0, self.description)
