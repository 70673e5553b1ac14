r"""ConjugateGradient: many right-hand sides at once, each with coefficients of its own, one product with H for all.

Every iteration is one pass over the data whatever the number of queries, and queries that have converged leave the
block. A preconditioner (Nystrom's, or the longest Jacobian rows) takes out the few large eigenvalues that make the
iteration long. Residuals are true ones: the recurrence drifts in float32, so that the solve ends with a fresh product
and goes on if that says so.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fastif import vectors
from fastif.curvature import CurvatureOperator
from fastif.errors import (
    ConfigurationError,
    ConvergenceError,
    ConvergenceWarning,
    NegativeCurvatureError,
    SingularMatrixError,
)
from fastif.solvers.base import Solution, check_damping, default_tolerance, relative_residual
from fastif.solvers.multishift import multishift
from fastif.solvers.nystrom import Nystrom
from fastif.solvers.row_preconditioner import LongestRows
from fastif.spectrum import Spectrum, lanczos_spectrum
from fastif.vectors import Block

Preconditioner = Nystrom | LongestRows
REFINEMENTS = 3  # restarts from the true residual before the result is called not converged


@dataclass(frozen=True)
class ConjugateGradient:
    """Solve by conjugate gradients.

    Args:
        tolerance: the relative residual to reach; unless given 1e-6 for float64 models, 1e-4 for float32, and 5e-3
            where a GPU multiplies in tf32, which holds three digits.
        max_iterations: products with H at most.
        preconditioner_rank: eigenvectors of H to take out beforehand by a Nystrom sketch,
            at one pass of so many vectors.
        preconditioner_rows: instead, Jacobian rows to take out, the longest of all examples; for the Hessian too.
        subsample: take H over so many examples, drawn once; all of them unless given.
        seed: of the sketch and the subsample.
    """

    tolerance: float | None = None
    max_iterations: int = 1000
    preconditioner_rank: int = 0
    preconditioner_rows: int = 0
    subsample: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.tolerance is not None and not 0 < self.tolerance < 1:
            raise ConfigurationError(f"tolerance must lie between 0 and 1, not {self.tolerance}.")
        if self.max_iterations < 1:
            raise ConfigurationError(f"max_iterations must be at least 1, not {self.max_iterations}.")
        if min(self.preconditioner_rank, self.preconditioner_rows) < 0:
            found = self.preconditioner_rank, self.preconditioner_rows
            raise ConfigurationError(f"preconditioner_rank and preconditioner_rows must not be negative, not {found}.")
        if self.preconditioner_rank and self.preconditioner_rows:
            raise ConfigurationError("give preconditioner_rank or preconditioner_rows: one preconditioner is used.")

    def prepare(self, operator: CurvatureOperator) -> "PreparedConjugateGradient":
        """Draw the subsample and sketch the preconditioner."""
        operator = operator.subsample(self.subsample, seed=self.seed)
        rank = min(self.preconditioner_rank, operator.size)
        sketch: Preconditioner | None = Nystrom.sketch(operator, rank=rank, seed=self.seed) if rank else None
        if self.preconditioner_rows:
            sketch = LongestRows(operator, self.preconditioner_rows)
        return PreparedConjugateGradient(self, operator, sketch)


class PreparedConjugateGradient:
    """Conjugate gradients on one operator."""

    def __init__(self, knobs: ConjugateGradient, operator: CurvatureOperator, sketch: Preconditioner | None) -> None:
        self.knobs, self.operator, self.sketch = knobs, operator, sketch
        self._spectrum: Spectrum | None = None
        self.tolerance = knobs.tolerance or default_tolerance(operator)

    @property
    def description(self) -> str:
        """In a few words, how it solves."""
        used, every = self.operator.examples, len(self.operator.data)
        share = "" if used == every else f" of {every:,}"
        words = f"conjugate gradients on {used:,}{share} examples"
        return words + (f", {self.sketch.description}" if self.sketch else "")

    def spectrum(self) -> Spectrum:
        """Return the Lanczos estimate of H's spectrum, made once."""
        if self._spectrum is None:
            self._spectrum = lanczos_spectrum(self.operator, seed=self.knobs.seed)
        return self._spectrum

    def spectrum_at_hand(self) -> Spectrum:
        """Return what says what a given damping means: of preconditioning rows, or else as where one is to be found."""
        if not isinstance(self.sketch, LongestRows):
            return self.spectrum()
        found = self.sketch.spectrum()
        # of the Hessian the rows tell no more than about what it is
        return replace(found, exact=found.exact and self.operator.kind == "gauss-newton")

    def moved(self, operator: CurvatureOperator) -> "PreparedConjugateGradient":
        """Return the same on the curvature at other weights, close by.

        The sketch stays, as it changes how fast an answer comes and not what it is; so does the spectrum, which only
        says what a damping means.
        """
        here = operator.subsample(self.knobs.subsample, seed=self.knobs.seed)
        other = PreparedConjugateGradient(self.knobs, here, self.sketch)
        other._spectrum = self._spectrum
        return other

    def solve(self, block: Block, damping: float) -> Solution:
        """Solve for every vector of the block."""
        self._check(damping)
        self.operator.progress("solving", 0, 100)
        block, sizes = _normalised(block)
        value = vectors.scale(block, 0.0)
        missing, size = block, vectors.norm(block)
        iterations = 0
        for _ in range(REFINEMENTS):
            budget = self.knobs.max_iterations - iterations
            correction, used = self._iterate(missing, damping, 0.5 * self.tolerance * size, budget)
            value = vectors.add(value, correction)
            iterations += used
            applied = self.operator(value, damping)
            missing = vectors.add(block, applied, -1.0)
            if bool((vectors.norm(missing) <= self.tolerance * size).all()) or iterations >= self.knobs.max_iterations:
                break
        verdict = self._verdict(applied, block)
        solution = Solution(vectors.scale(value, sizes), *verdict, iterations, self.description)
        return self._finish(solution, damping)

    def sweep(self, block: Block, dampings: Sequence[float]) -> list[Solution]:
        """Solve for several dampings at the price of the smallest: one Krylov space serves them all."""
        for damping in dampings:
            self._check(damping)
        block, sizes = _normalised(block)
        values, iterations = multishift(
            self.operator,
            block,
            dampings,
            tolerance=0.5 * self.tolerance,
            max_iterations=self.knobs.max_iterations,
            check_bend=self._check_bend,
        )
        method = f"multi-shift conjugate gradients on {self.operator.examples:,} examples"
        solutions = []
        for value, damping in zip(values, dampings, strict=True):
            verdict = self._verdict(self.operator(value, damping), block)
            solution = Solution(vectors.scale(value, sizes), *verdict, iterations, method)
            solutions.append(self._finish(solution, damping))
        return solutions

    def _iterate(self, block: Block, damping: float, goal: Tensor, budget: int) -> tuple[Block, int]:
        """Run from zero until the recurrence says that every residual is below its goal, or the budget is spent."""
        value = vectors.scale(block, 0.0)
        rows = (vectors.norm(block) > goal).nonzero().flatten()  # of the vectors that are still at work
        residual = vectors.select(block, rows)
        solution = vectors.scale(residual, 0.0)
        direction = self._precondition(residual, damping)
        product = vectors.dot(residual, direction)
        steepest, steps, percent = 0.0, 0, 0
        while len(rows) and steps < budget:
            image = self.operator(direction, damping)
            bend = vectors.dot(direction, image)
            steepest = self._check_bend(bend / vectors.dot(direction, direction), steepest, damping)
            length = product / bend
            solution = vectors.add(solution, direction, length)
            residual = vectors.add(residual, image, -length)
            steps += 1
            excess = vectors.norm(residual) / goal[rows]
            percent = self._report(excess, percent)
            going = excess > 1
            if not bool(going.all()):
                _put(value, rows[~going], vectors.select(solution, ~going))
                rows, product = rows[going], product[going]
                solution, residual, direction = (vectors.select(it, going) for it in (solution, residual, direction))
            smoothed = self._precondition(residual, damping)
            before, product = product, vectors.dot(residual, smoothed)
            direction = vectors.add(smoothed, direction, product / before)
        _put(value, rows, solution)
        return value, steps

    def _report(self, excess: Tensor, before: int) -> int:
        """Show, in per cent, how many of the digits that the tolerance asks for the worst vector has."""
        wanted = math.log(2 / self.tolerance)
        missing = math.log(max(1.0, min(float(excess.max()), 2 / self.tolerance)))
        percent = max(before, int(100 * (1 - missing / wanted)))  # a residual may rise again for a while
        self.operator.progress("solving", percent, 100)
        return percent

    def _precondition(self, block: Block, damping: float) -> Block:
        return self.sketch.solve(block, damping) if self.sketch else block

    def _verdict(self, applied: Block, block: Block) -> tuple[Tensor, Tensor]:
        residual = relative_residual(applied, block).cpu()
        if not torch.isfinite(residual).all():
            raise ConvergenceError(
                "conjugate gradients met a number that is not finite. The loss may have no finite second derivative at "
                "these weights (sqrt or log at zero), or the damping is far too small for this dtype: "
                "raise it, or use float64."
            )
        return residual <= self.tolerance, residual

    def _finish(self, solution: Solution, damping: float) -> Solution:
        if bool(solution.converged.all()):
            return solution
        assert solution.residual is not None
        if damping + self.operator.weight_decay == 0:
            raise self._singular(damping)
        warnings.warn(
            f"conjugate gradients stopped after {solution.iterations} iterations at a relative residual of "
            f"{solution.residual.max():.2g}, above the tolerance of {self.tolerance:.2g}. The scores are approximate: "
            "raise max_iterations, or preconditioner_rank, or damping.",
            ConvergenceWarning,
            stacklevel=4,
        )
        return solution

    def _check(self, damping: float) -> None:
        check_damping(damping)
        operator = self.operator
        most = operator.outputs_per_example * operator.examples
        if damping + operator.weight_decay == 0 and operator.kind == "gauss-newton" and most < operator.size:
            raise self._singular(damping)

    def _check_bend(self, bend: Tensor, steepest: float, damping: float) -> float:
        """Return the largest curvature met; raise if a direction has none (within rounding) or a negative one."""
        steepest = max(steepest, float(bend.max()))
        rounding = 10 * torch.finfo(bend.dtype).eps * steepest
        if bool((bend > rounding).all()) or not bool(torch.isfinite(bend).all()):
            return steepest  # numbers that are not finite are reported with the residual
        if bool((bend < -rounding).any()):
            bottom = min(self.spectrum().bottom, float(bend.min()) - damping)
            raise NegativeCurvatureError(
                "conjugate gradients met negative curvature: the smallest eigenvalue of the curvature is about "
                f"{bottom:.3g}, and the damping of {damping:.3g} does not lift it above zero. Use damping of at least "
                f"{1.5 * abs(bottom):.3g}; the Gauss-Newton matrix of a convex loss has no negative eigenvalue."
            )
        raise self._singular(damping)

    def _singular(self, damping: float) -> SingularMatrixError:
        return SingularMatrixError(
            f"the curvature matrix has no inverse at damping {damping:.3g}: some direction of the "
            f"{self.operator.size:,} parameters changes nothing on the {self.operator.examples:,} examples. Use "
            f'damping="auto" or a number such as {0.005 * self.spectrum().top:.3g}.'
        )


def _normalised(block: Block) -> tuple[Block, Tensor]:
    """Return vectors of a largest entry of one, and what they were divided by: squares of tiny ones would vanish."""
    sizes = torch.stack([vectors.as_rows(tensor).abs().amax(dim=1) for tensor in block.values()]).amax(dim=0)
    sizes = torch.where(sizes > 0, sizes, 1)
    return vectors.scale(block, 1 / sizes), sizes


def _put(target: Block, rows: Tensor, source: Block) -> None:
    for name, tensor in target.items():
        tensor[rows] = source[name]
