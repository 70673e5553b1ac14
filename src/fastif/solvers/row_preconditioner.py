r"""LongestRows: the longest Jacobian rows as a preconditioner for conjugate gradients, also on the Hessian.

$P = \frac1n A_S^\top A_S + \lambda I$, where S are the longest rows of the Gauss-Newton matrix (strong_rows.py), is
inverted by Woodbury's identity. It is positive definite whatever the curvature that is solved for, and close to it
where a few rows hold most of the trace. Knows operators and rows, and no iteration.
"""

from fastif import vectors
from fastif.curvature import CurvatureOperator
from fastif.errors import ConfigurationError
from fastif.solvers.demand import can_be_kept
from fastif.solvers.row_matrix import RowMatrix
from fastif.spectrum import Spectrum
from fastif.vectors import Block


class LongestRows:
    """The rows, and the matrix of their inner products."""

    def __init__(self, operator: CurvatureOperator, most: int) -> None:
        operator = operator.as_kind("gauss-newton").alone()
        if not can_be_kept(operator):
            raise ConfigurationError(
                "preconditioner_rows needs a model whose layers can all be captured: use preconditioner_rank."
            )
        self._matrix = RowMatrix(operator, most)

    @property
    def description(self) -> str:
        """In a few words, what it is made of."""
        return f"preconditioned by {self._matrix.description}"

    def spectrum(self) -> Spectrum:
        """Return about the eigenvalues of the Gauss-Newton matrix, as far as these rows tell them."""
        return self._matrix.spectrum()

    def solve(self, block: Block, damping: float) -> Block:
        r"""Return $\lambda P^{-1} v$ for every vector v of the block: a factor changes no iterate."""
        operator, rows = self._matrix.operator, self._matrix.rows
        shift = operator.examples * (damping + operator.weight_decay)
        if shift == 0 or not vectors.width(block):
            return block
        inner = self._matrix.inverse(rows.times(block), shift).to(vectors.dtype(block))
        return vectors.add(block, rows.summed(inner, block), -1.0)
