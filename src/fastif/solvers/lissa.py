r"""LiSSA: the paper's solver as what it is, stochastic gradient descent with a constant step.

The solution of $(H + \lambda I) x = v$ minimises $\frac12 x^\top (H + \lambda I) x - v^\top x$, and

$$h_{j+1} = h_j + \eta\, (v - (H_{B_j} + \lambda I) h_j), \quad h_0 = 0,$$

with $H_B$ the curvature of B examples drawn anew in each step, descends it. In expectation what is missing after J
steps is $(1 - \eta\lambda)^J$ of the solution at most; the step is stable below about $2 / (\lambda_{\max} + \max_i
\|H_i\| / B)$. So the one knob that matters is $\lambda$: `scale` $= 1/\eta$ is found from the spectrum, and `depth` J
from the tolerance. `repeats` T independent runs go through the model together, and their spread is the standard error
of their mean.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fastif import vectors
from fastif.curvature import CurvatureOperator
from fastif.errors import ConfigurationError, ConvergenceError, SingularMatrixError
from fastif.solvers.base import Solution, check_damping, relative_residual, summarise_repeats
from fastif.solvers.paper_lissa import PaperLiSSA
from fastif.solvers.sampling import draw_ids
from fastif.solvers.steps import Steps
from fastif.spectrum import Spectrum, lanczos_spectrum
from fastif.vectors import Block

DEEPEST = 1_000_000
STEPS_BETWEEN_CHECKS = 10
EXAMPLE_BYTES = 2**28  # what the vectors of a sample's power iterations may take
DIVERGED = 10  # times the largest norm that the solution can have


@dataclass(frozen=True)
class LiSSA:
    """Solve by stochastic gradient descent on the quadratic whose minimum is the solution.

    Args:
        depth: J, the number of steps; "auto" takes as many as leave `tolerance` of the solution missing.
        repeats: T, independent runs that are averaged.
        batch_size: B, examples drawn in each step.
        scale: one over the step; "auto" finds it from the spectrum.
        tolerance: what a depth of "auto" may leave missing.
        seed: of the draws, which depend on (seed, repeat, step) alone.
    """

    depth: int | Literal["auto"] = "auto"
    repeats: int = 4
    batch_size: int = 16
    scale: float | Literal["auto"] = "auto"
    tolerance: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        if self.depth != "auto" and self.depth < 1:
            raise ConfigurationError(f'depth must be "auto" or at least 1, not {self.depth}.')
        if self.repeats < 1 or self.batch_size < 1:
            raise ConfigurationError(
                f"repeats and batch_size must be at least 1, not {self.repeats}, {self.batch_size}."
            )
        if self.scale != "auto" and not 0 < self.scale < math.inf:
            raise ConfigurationError(f'scale must be "auto" or a positive number, not {self.scale}.')
        if not 0 < self.tolerance < 1:
            raise ConfigurationError(f"tolerance must lie between 0 and 1, not {self.tolerance}.")

    @staticmethod
    def paper(
        damp: float = 5e-3, scale: float = 1e4, depth: int = 1000, batch_size: int = 1, repeats: int = 4, seed: int = 0
    ) -> PaperLiSSA:
        """Return the solver that iterates as the paper does, to the letter; its damping is damp x scale."""
        return PaperLiSSA(damp=damp, scale=scale, depth=depth, batch_size=batch_size, repeats=repeats, seed=seed)

    def prepare(self, operator: CurvatureOperator) -> "PreparedLiSSA":
        """Nothing is done before damping is known, but for the spectrum when it is asked for."""
        return PreparedLiSSA(self, operator)


class PreparedLiSSA:
    """LiSSA on one operator."""

    def __init__(self, knobs: LiSSA, operator: CurvatureOperator, runs: Sequence[int] | None = None) -> None:
        self.knobs, self.operator = knobs, operator
        self.runs = range(knobs.repeats) if runs is None else runs  # of the repeats, those that are made here
        self._spectrum: Spectrum | None = None
        self._largest: float | None = None

    @property
    def description(self) -> str:
        """In a few words, how it solves."""
        return f"LiSSA, {self.knobs.repeats} repeats with batches of {self.knobs.batch_size}"

    def spectrum(self) -> Spectrum:
        """Return the Lanczos estimate of H's spectrum, made once."""
        if self._spectrum is None:
            self._spectrum = lanczos_spectrum(self.operator, seed=self.knobs.seed)
        return self._spectrum

    def stable_scale(self, damping: float) -> float:
        r"""Return $\lambda_{\max} + \max_i \|H_i\| / B + \lambda$, half of the inverse of the largest stable step."""
        if self._largest is None:
            self._largest = largest_example_norm(self.operator, seed=self.knobs.seed)
        return self.spectrum().top + self._largest / self.knobs.batch_size + damping

    def solve(self, block: Block, damping: float) -> Solution:
        """Solve for every vector of the block."""
        check_damping(damping)
        scale = self.stable_scale(damping) if self.knobs.scale == "auto" else self.knobs.scale
        weakest = self._smallest_eigenvalue(damping)
        depth = self._depth(scale, weakest)
        given: dict[str, float] = {"damping": damping, "scale": scale, "depth": depth, "weakest": weakest}
        helpers = self.operator.helpers
        if helpers is None or self.knobs.repeats == 1:
            samples = self.iterates(block, **given)
        else:
            samples = helpers.repeats(self.knobs, self.operator, block, **given)
        value, error = summarise_repeats(samples, self.knobs.repeats)
        residual = relative_residual(self.operator(value, damping), block).cpu()
        missing = (1 - weakest / scale) ** depth
        converged = torch.full((vectors.width(block),), missing <= self.knobs.tolerance, device="cpu")
        method = f"{self.description}, depth {depth:,}, scale {scale:.3g}"
        return Solution(value, converged, residual, depth, method, samples, error)

    def _smallest_eigenvalue(self, damping: float) -> float:
        """Return a lower bound on the eigenvalues of H + damping I, which sets the rate."""
        floor = self.operator.weight_decay if self.operator.kind == "gauss-newton" else self.spectrum().bottom
        if floor + damping <= 0:
            enough = 0.005 * self.spectrum().top - min(0.0, 1.5 * floor)
            raise SingularMatrixError(
                f"LiSSA needs a positive matrix, but its smallest eigenvalue is about {floor + damping:.3g} at damping "
                f'{damping:.3g}. Use damping="auto" or a number such as {enough:.3g}.'
            )
        return floor + damping

    def _depth(self, scale: float, weakest: float) -> int:
        if self.knobs.depth != "auto":
            return self.knobs.depth
        depth = math.ceil(math.log(self.knobs.tolerance) / math.log1p(-min(weakest / scale, 0.999)))
        if depth > DEEPEST:
            raise ConfigurationError(
                f"LiSSA would need {depth:,} steps at this damping. Raise damping or batch_size, give depth= a number, "
                "or use fastif.ConjugateGradient()."
            )
        return depth

    def iterates(self, block: Block, *, damping: float, scale: float, depth: float, weakest: float) -> Block:
        """Return the last iterate of every run, those of all vectors of the first run first."""
        operator, repeats, size, depth = self.operator, len(self.runs), self.knobs.batch_size, int(depth)
        shift = damping + operator.weight_decay
        bound = DIVERGED * vectors.norm(block).repeat(repeats) / weakest
        ids = self._ids(depth)
        ahead = vectors.shared(vectors.scale(block, 1 / scale), repeats)

        def update(state: Block, image: Block) -> None:
            vectors.advance(state, 1 - shift / scale, ahead, image, -1 / (size * scale))

        def look(step: int, state: Block) -> None:
            if step % STEPS_BETWEEN_CHECKS == 0 or step == depth - 1:
                operator.progress("solving", step, depth)
                self._check_norms(vectors.norm(state), bound, scale, damping)

        start = vectors.scale(vectors.repeated(block, repeats), 0.0)
        state = Steps(operator, block, update, groups=repeats).run(start, ids, look)
        operator.progress("solving", depth, depth)
        return state

    def drawn(self, *, depth: float, **_: float) -> Tensor:
        """Return the positions of all examples that the runs draw."""
        found: Tensor = torch.unique(self._ids(int(depth)))
        return found

    def _ids(self, depth: int) -> Tensor:
        """Return the positions for each step, (steps, runs * examples of a run)."""
        total, size, seed = self.operator.examples, self.knobs.batch_size, self.knobs.seed
        steps = range(depth)
        return torch.stack([draw_ids(total, size, seed=seed, repeats=self.runs, step=step).flatten() for step in steps])

    def _check_norms(self, norms: Tensor, bounds: Tensor, scale: float, damping: float) -> None:
        if bool((norms <= bounds).all()):
            return
        needed = max(self.stable_scale(damping), 2 * scale)
        raise ConvergenceError(
            f"LiSSA diverges at scale {scale:.3g}: an iterate has outgrown any solution. Use scale of at least "
            f'{needed:.3g}, or scale="auto"; a larger batch_size allows a smaller one.'
        )


def largest_example_norm(operator: CurvatureOperator, *, examples: int = 128, rounds: int = 6, seed: int = 0) -> float:
    r"""Estimate $\max_i \|H_i\|$ over a sample of examples, each by power iteration of its own."""
    part = operator.subsample(examples, seed=seed)
    at_once = max(1, EXAMPLE_BYTES // (operator.size * 8))
    largest = 0.0
    for start in range(0, part.examples, at_once):
        batch = part.batch(torch.arange(start, min(start + at_once, part.examples), device="cpu"))
        state = vectors.random(operator.model.parameters, len(batch), seed=seed)
        for _ in range(rounds):
            state = vectors.scale(state, 1 / vectors.norm(state).clamp_min(torch.finfo(vectors.dtype(state)).tiny))
            state = operator.grouped(batch, state, len(batch))
        largest = max(largest, float(vectors.norm(state).max()))
    return largest
