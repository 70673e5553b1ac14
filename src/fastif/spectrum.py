r"""The eigenvalues of a curvature operator, from a few products: top, bottom, trace, effective dimension.

The effective dimension at a damping is $d_{\mathrm{eff}}(\lambda) = \mathrm{tr}\, H (H + \lambda I)^{-1}$: how many
directions the curvature still tells apart. This file knows operators, and no solver.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fastif import vectors
from fastif.curvature import CurvatureOperator
from fastif.derivatives import require_finite
from fastif.keeping import Tensors

RESOLUTION = 0.005  # of the largest eigenvalue: the damping at which the effective dimension must have settled


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues with weights that sum to p: all of them with weight one, or a quadrature that stands for them.

    >>> full = Spectrum(torch.tensor([1.0, 3.0]), torch.tensor([1.0, 1.0]), exact=True)
    >>> full.top, full.bottom, full.trace, full.effective_dimension(1.0)
    (3.0, 1.0, 4.0, 1.25)
    """

    values: Tensor
    weights: Tensor
    exact: bool

    @property
    def top(self) -> float:
        """The largest eigenvalue."""
        return float(self.values.max())

    @property
    def bottom(self) -> float:
        """The smallest eigenvalue."""
        return float(self.values.min())

    @property
    def scale(self) -> float:
        """The largest magnitude among the eigenvalues."""
        return max(abs(self.top), abs(self.bottom))

    @property
    def trace(self) -> float:
        """The sum of all eigenvalues; of a quadrature a rough one, as it has few probes: `trace()` is better."""
        return float((self.values * self.weights).sum())

    def effective_dimension(self, damping: float) -> float:
        """Return tr H (H + damping I)^-1."""
        kept = self.values + damping != 0  # a zero eigenvalue without damping tells no direction apart
        return float((self.weights * self.values / (self.values + damping))[kept].sum())


def lanczos_spectrum(
    operator: CurvatureOperator, *, probes: int = 4, steps: int = 100, tolerance: float = 1e-3, seed: int = 0
) -> Spectrum:
    r"""Estimate the spectrum by Lanczos iterations from random vectors, all in the same passes over the data.

    With $T = Q \Theta Q^\top$ the tridiagonal matrix of a probe, the Ritz values $\Theta$ with weights $p\, Q_{1j}^2$
    are a Gauss quadrature of the spectrum (stochastic Lanczos quadrature), and the outermost of them converge to the
    outermost eigenvalues: one lies within $\beta\, |Q_{kj}|$ of the j-th of k Ritz values, with $\beta$ the norm of
    the next vector. Stops when that bound is below `tolerance` for the largest eigenvalue (for the Hessian, and if
    negative, also small beside the smallest), and the effective dimension at a small damping has settled to ten times
    that. No basis is stored: without reorthogonalisation Lanczos finds some values twice, with their weight shared,
    which leaves both uses right.
    """

    def make() -> Tensors:
        found = _iterate(operator, probes, steps, tolerance, seed)
        return {"values": found.values, "weights": found.weights}

    kept = operator.keep(f"spectrum over {operator.examples} examples {probes} {steps} {tolerance} {seed}", make)
    return Spectrum(kept["values"], kept["weights"], exact=False)


def _iterate(operator: CurvatureOperator, probes: int, steps: int, tolerance: float, seed: int) -> Spectrum:
    current = vectors.random(operator.model.parameters, probes, seed=seed)
    current = vectors.scale(current, 1 / vectors.norm(current))
    previous = vectors.scale(current, 0.0)
    off_diagonal = vectors.norm(previous)
    diagonals: list[Tensor] = []
    off_diagonals: list[Tensor] = []
    dimension = 0.0
    for step in range(min(steps, operator.size)):
        operator.progress("curvature spectrum", step, steps)
        image = vectors.add(operator(current), previous, -off_diagonal)
        diagonal = vectors.dot(image, current)
        image = vectors.add(image, current, -diagonal)
        off_diagonal = vectors.norm(image)
        diagonals.append(diagonal.cpu().double())
        values, rotations = _ritz(diagonals, off_diagonals)
        weights = rotations[:, 0] ** 2 * operator.size / probes
        spectrum = Spectrum(values.flatten(), weights.flatten(), exact=False)
        before, dimension = dimension, _settling_dimension(spectrum)
        bounds = off_diagonal.cpu().double()[:, None] * rotations[:, -1].abs()
        exhausted = off_diagonal.min() <= 1e3 * torch.finfo(off_diagonal.dtype).eps * spectrum.scale
        drifting = abs(dimension - before) > 10 * tolerance * abs(dimension)
        if exhausted or not (drifting or _ends_are_open(operator.kind, values, bounds, tolerance)):
            break
        off_diagonals.append(off_diagonal.cpu().double())
        previous, current = current, vectors.scale(image, 1 / off_diagonal)
    operator.progress("curvature spectrum", steps, steps)
    return spectrum


def trace(operator: CurvatureOperator, *, probes: int = 32, seed: int = 0) -> tuple[float, float]:
    r"""Return an estimate of $\mathrm{tr} H$ and its standard error: the mean of $r^\top H r$ over random signs r."""
    signs = vectors.random(operator.model.parameters, probes, seed=seed, draw=_signs)
    values = vectors.dot(signs, operator(signs)).double()
    return float(values.mean()), float(values.std() / probes**0.5)


def _ritz(diagonals: list[Tensor], off_diagonals: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Return eigenvalues (probes, k) and eigenvectors (probes, k, k) of the tridiagonal matrices of all probes."""
    tridiagonal = torch.diag_embed(torch.stack(diagonals, dim=-1))
    if off_diagonals:
        beside = torch.stack(off_diagonals, dim=-1)
        tridiagonal = tridiagonal + torch.diag_embed(beside, 1) + torch.diag_embed(beside, -1)
    require_finite(tridiagonal)
    values, rotations = torch.linalg.eigh(tridiagonal)
    return values, rotations


def _settling_dimension(spectrum: Spectrum) -> float:
    return spectrum.effective_dimension(RESOLUTION * spectrum.scale + 1.5 * max(0.0, -spectrum.bottom))


def _ends_are_open(kind: str, values: Tensor, bounds: Tensor, tolerance: float) -> bool:
    """Return whether the largest Ritz value, or for the Hessian the smallest, may still be far from an eigenvalue."""
    scale = float(values.abs().max())
    top_bound = float(bounds.flatten()[values.argmax()])
    bottom, bottom_bound = float(values.min()), float(bounds.flatten()[values.argmin()])
    wide = kind == "hessian" and bottom_bound > max(10 * tolerance * abs(bottom), 0.1 * tolerance * scale)
    return top_bound > tolerance * scale or wide


def _signs(shape: tuple[int, ...], *, generator: torch.Generator, dtype: torch.dtype, device: str) -> Tensor:
    return torch.randint(0, 2, shape, generator=generator, device=device).to(dtype) * 2 - 1
