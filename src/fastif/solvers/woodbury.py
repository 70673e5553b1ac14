r"""Woodbury: a solve in as many dimensions as there are rows, for a model with far more parameters than that.

With $G = \frac1n A^\top A$ and $\lambda$ the damping plus weight decay, the Woodbury identity says

$$(G + \lambda I)^{-1} v = \frac1\lambda (v - A^\top u), \qquad (A A^\top + n \lambda I)\, u = A v.$$

The matrix $A A^\top$ (rows x rows) is made and decomposed once; a solve then takes two products with A, whatever the
damping, where conjugate gradients take two for each of some ten to thirty iterations. What rounding left is seen in a
third product, and taken away by repeating it: with $w = \frac1n A x - u$ the residual is $A^\top w$, and
$u + n \lambda (A A^\top + n \lambda I)^{-1} w$ is better. The spectrum is that of all eigenvalues.

A may be cut to its longest rows, S: $G_S = \frac1n A_S^\top A_S$ lies below G by a matrix whose trace is known. In a
model that has learned its data a few per cent of the rows hold nearly all of it.
"""

import warnings
from dataclasses import dataclass

import torch

from fastif import vectors
from fastif.curvature import CurvatureOperator
from fastif.derivatives import require_finite
from fastif.errors import ConfigurationError, ConvergenceWarning, SingularMatrixError
from fastif.solvers.base import Solution, check_damping, default_tolerance
from fastif.solvers.demand import can_be_kept
from fastif.solvers.row_matrix import RowMatrix
from fastif.spectrum import Spectrum
from fastif.vectors import Block

REFINEMENTS = 4
VECTORS_HELD = 4  # for each right-hand side: itself, an image, a solution, and one on the way


@dataclass(frozen=True)
class Woodbury:
    """Solve in the space of Jacobian rows: (C - 1) of them for each example of C classes. Gauss-Newton only.

    Args:
        tolerance: the relative residual to reach; unless given as for `ConjugateGradient`.
        subsample: take H over so many examples, drawn once; all of them unless given.
        rows: keep only so many rows, the longest; what share of the trace of H they hold is told. All unless given.
        seed: of the subsample.
    """

    tolerance: float | None = None
    subsample: int | None = None
    rows: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rows is not None and self.rows < 1:
            raise ConfigurationError(f"rows must be at least 1, not {self.rows}.")
        if self.tolerance is not None and not 0 < self.tolerance < 1:
            raise ConfigurationError(f"tolerance must lie between 0 and 1, not {self.tolerance}.")

    def prepare(self, operator: CurvatureOperator) -> "PreparedWoodbury":
        """Keep the rows, and decompose the matrix of their inner products."""
        operator = operator.subsample(self.subsample, seed=self.seed)
        if not can_be_kept(operator):
            raise ConfigurationError(
                "Woodbury needs curvature='gauss-newton' and a model whose layers can all be captured: "
                "use fastif.ConjugateGradient()."
            )
        return PreparedWoodbury(self, RowMatrix(operator, self.rows))


class PreparedWoodbury:
    """Woodbury's identity on one operator."""

    vectors_held = VECTORS_HELD

    def __init__(self, knobs: Woodbury, matrix: RowMatrix) -> None:
        self.operator, self.matrix, self.rows = matrix.operator, matrix, matrix.rows
        self.tolerance = knobs.tolerance or default_tolerance(matrix.operator)

    @property
    def description(self) -> str:
        """In a few words, how it solves."""
        used, every = self.operator.examples, len(self.operator.data)
        share = "" if used == every else f" of {every:,}"
        return f"by Woodbury's identity, {self.matrix.description} of {used:,}{share} examples"

    def spectrum(self) -> Spectrum:
        """Return the spectrum of the curvature, exact where all rows are kept."""
        return self.matrix.spectrum()

    def solve(self, block: Block, damping: float) -> Solution:
        """Solve for every vector of the block."""
        check_damping(damping)
        total, examples = damping + self.operator.weight_decay, self.operator.examples
        if total == 0:
            raise SingularMatrixError(
                f"the curvature of {self.rows.count:,} rows has no inverse in {self.operator.size:,} parameters and "
                f'the damping is 0. Use damping="auto" or a number such as {0.005 * self.spectrum().top:.3g}.'
            )
        size = vectors.norm(block).double()
        size = torch.where(size > 0, size, 1)
        self.operator.progress("solving", 0, 100)
        inner = self.matrix.inverse(self.rows.times(block), examples * total)
        for attempt in range(REFINEMENTS):
            image = self.rows.summed(inner.to(vectors.dtype(block)), block)
            value = vectors.scale(vectors.add(block, image, -1.0), 1 / total)
            wrong = self.rows.times(value).double() / examples - inner
            residual = ((wrong @ self.matrix.rotation) * self.matrix.values.sqrt()).norm(dim=1) / size
            if not bool((residual > self.tolerance).any()) or attempt == REFINEMENTS - 1:
                break
            inner = inner + examples * total * self.matrix.inverse(wrong, examples * total)
        require_finite(residual)
        self.operator.progress("solving", 100, 100)
        converged = residual <= self.tolerance
        if not bool(converged.all()):
            warnings.warn(
                f"the solve ended at a relative residual of {float(residual.max()):.2g}, above the tolerance of "
                f"{self.tolerance:.2g}, which is what rounding allows here. Raise damping, or use float64.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return Solution(value, converged.cpu(), residual.cpu(), attempt + 1, self.description)
