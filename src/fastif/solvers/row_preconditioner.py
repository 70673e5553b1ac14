r"""LongestRows: the longest Jacobian rows as a preconditioner for conjugate gradients, also on the Hessian.

$P = \frac1n A_S^\top A_S + \lambda I$, where S are the longest rows of the Gauss-Newton matrix (strong_rows.py), is
inverted by Woodbury's identity. It is positive definite whatever the curvature that is solved for, and close to it
where a few rows hold most of the trace. Knows operators and rows, and no iteration.
"""

import torch
from torch import Tensor

from fastif import vectors
from fastif.curvature import CurvatureOperator
from fastif.errors import ConfigurationError
from fastif.solvers.kept_rows import KeptRows, can_be_kept
from fastif.solvers.woodbury import spectrum_of_rows
from fastif.spectrum import Spectrum
from fastif.vectors import Block


class LongestRows:
    """The rows, and the eigenvalues and eigenvectors of the matrix of their inner products."""

    def __init__(self, operator: CurvatureOperator, most: int) -> None:
        operator = operator.as_kind("gauss-newton").alone()
        if not can_be_kept(operator):
            raise ConfigurationError(
                "preconditioner_rows needs a model whose layers can all be captured: use preconditioner_rank."
            )
        self._rows, self._operator = KeptRows(operator, most), operator
        values, self._rotation = torch.linalg.eigh(self._rows.gram())
        self._values: Tensor = values.clamp(min=0.0)  # below zero they are rounding

    @property
    def description(self) -> str:
        """In a few words, what it is made of."""
        kept, seen = self._rows.count, self._rows.seen
        return f"preconditioned by the longest {kept:,} of {seen:,} Jacobian rows"

    def spectrum(self) -> Spectrum:
        """Return the eigenvalues of the Gauss-Newton matrix as far as these rows have them: none is too large."""
        return spectrum_of_rows(self._rows, self._values)

    def solve(self, block: Block, damping: float) -> Block:
        r"""Return $\lambda P^{-1} v$ for every vector v of the block: a factor changes no iterate."""
        shift = self._operator.examples * (damping + self._operator.weight_decay)
        if shift == 0 or not vectors.width(block):
            return block
        inner = (self._rows.times(block).double() @ self._rotation) / (self._values + shift)
        image = self._rows.summed((inner @ self._rotation.T).to(vectors.dtype(block)), block)
        return vectors.add(block, image, -1.0)
