r"""Lanczos: the r strongest eigenvectors of H, and the rest of space as if H were zero there.

$$x = V (\Lambda + \lambda)^{-1} V^\top v + \lambda^{-1} (v - V V^\top v),$$

never the truncated inverse, which would drop what V does not span although that is where the inverse is largest. The
eigenvectors are made once for each model, by Lanczos iterations with full reorthogonalisation; after that any damping
and any number of queries costs two thin products.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fastif import vectors
from fastif.curvature import CurvatureOperator
from fastif.derivatives import require_finite
from fastif.errors import ConfigurationError
from fastif.solvers.base import PreparedSolver, Solution, relative_residual
from fastif.solvers.eigen import EigenSystem
from fastif.solvers.identity import Identity
from fastif.spectrum import Spectrum, lanczos_spectrum
from fastif.vectors import Block


@dataclass(frozen=True)
class Lanczos:
    """Solve with a low-rank H.

    Args:
        rank: r, eigenvectors of the largest magnitude to keep.
        tolerance: how far, beside the largest eigenvalue, a kept one may be from an eigenvalue of H.
        subsample: take H over so many examples, drawn once; all of them unless given.
        seed: of the starting vector and the subsample.
    """

    rank: int = 64
    tolerance: float = 1e-3
    subsample: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ConfigurationError(f"rank must be at least 1, not {self.rank}.")
        if not 0 < self.tolerance < 1:
            raise ConfigurationError(f"tolerance must lie between 0 and 1, not {self.tolerance}.")

    def prepare(self, operator: CurvatureOperator) -> "PreparedLanczos":
        """Find the eigenvectors."""
        operator = operator.subsample(self.subsample, seed=self.seed)
        return PreparedLanczos(
            operator, strongest_eigenvectors(operator, self.rank, self.tolerance, self.seed), self.seed
        )


class PreparedLanczos:
    """The eigenvectors, with the operator beside them, for true residuals."""

    def __init__(self, operator: CurvatureOperator, system: EigenSystem, seed: int) -> None:
        self.operator, self.system, self.seed = operator, system, seed
        self._spectrum: Spectrum | None = None

    @property
    def description(self) -> str:
        """In a few words, how it solves."""
        return self.system.description

    def spectrum(self) -> Spectrum:
        """Return an estimate that knows of the eigenvalues which were not kept, too."""
        if self._spectrum is None:
            self._spectrum = lanczos_spectrum(self.operator, seed=self.seed)
        return self._spectrum

    def solve(self, block: Block, damping: float) -> Solution:
        """Solve by the formula at the top of this file."""
        solution = self.system.solve(block, damping)
        return replace(solution, residual=relative_residual(self.operator(solution.value, damping), block).cpu())


def strongest_eigenvectors(operator: CurvatureOperator, rank: int, tolerance: float, seed: int) -> EigenSystem:
    r"""Return the `rank` eigenvalues of the largest magnitude, with their vectors.

    The Krylov basis Q (kept whole, k rows of p) grows until $\beta\,|S_{kj}|$, the distance of each wanted Ritz value
    from an eigenvalue, is below the tolerance. When the space is exhausted the iteration goes on from a new random
    vector, so that eigenvalues that occur several times are found as often.
    """
    rank = min(rank, operator.size)
    limit = min(operator.size, 4 * rank + 20)
    like = operator.model.parameters
    basis = torch.empty(limit, operator.size, dtype=vectors.dtype(like), device=next(iter(like.values())).device)
    diagonal: list[float] = []
    beside: list[float] = []
    current, fresh = _random_beside(basis[:0], operator, seed), True
    for count in range(1, limit + 1):
        operator.progress("eigenvectors", count - 1, limit)
        basis[count - 1] = current
        image = _apply(operator, current)
        diagonal.append(float(image @ current))
        image = _beside(basis[:count], image)
        length = float(image.norm())
        values, rotation = _ritz(diagonal, beside)
        wanted = values.abs().argsort(descending=True)[:rank]
        scale = float(values.abs().max())
        rounding = 1e3 * torch.finfo(image.dtype).eps * scale
        exhausted = length <= rounding
        nothing_left = exhausted and fresh and abs(diagonal[-1] - operator.weight_decay) <= rounding
        settled = count > rank and length * float(rotation[-1, wanted].abs().max()) <= tolerance * scale
        if nothing_left or (settled and not exhausted) or count == limit:
            break
        beside.append(0.0 if exhausted else length)
        current = _random_beside(basis[:count], operator, seed + count) if exhausted else image / length
        fresh = exhausted
    operator.progress("eigenvectors", limit, limit)
    ritz_vectors = basis[: len(diagonal)].T @ rotation[:, wanted].to(basis)
    description = f"Lanczos of rank {len(wanted)} on {operator.examples:,} examples"
    return EigenSystem(values[wanted].to(basis), ritz_vectors, operator.weight_decay, like, description)


def _apply(operator: CurvatureOperator, vector: Tensor) -> Tensor:
    image = vectors.flatten(operator(vectors.unflatten(vector[None], operator.model.parameters)))[0]
    require_finite(image)
    return image


def _random_beside(basis: Tensor, operator: CurvatureOperator, seed: int) -> Tensor:
    """Return a random unit vector orthogonal to the rows of the basis."""
    rest = _beside(basis, vectors.flatten(vectors.random(operator.model.parameters, 1, seed=seed))[0])
    unit: Tensor = rest / rest.norm()
    return unit


def _beside(basis: Tensor, vector: Tensor) -> Tensor:
    """Take the rows of the basis out of a vector, twice, as once leaves rounding of the size of what was taken."""
    for _ in range(2):
        vector = vector - (basis @ vector) @ basis
    return vector


def _ritz(diagonal: list[float], beside: list[float]) -> tuple[Tensor, Tensor]:
    matrix = torch.diag(torch.tensor(diagonal, dtype=torch.float64, device="cpu"))
    if beside:
        off = torch.tensor(beside, dtype=torch.float64, device="cpu")
        matrix = matrix + torch.diag(off, 1) + torch.diag(off, -1)
    values, rotation = torch.linalg.eigh(matrix)
    return values, rotation


def eigensystem_of(solver: PreparedSolver, operator: CurvatureOperator, rank: int) -> EigenSystem:
    """Return eigenvalues and vectors of H: those that a prepared solver has, else the strongest, up to a rank."""
    if isinstance(solver, Identity):
        return EigenSystem.identity(operator.model.parameters)
    if isinstance(solver, EigenSystem):
        return solver
    if isinstance(solver, PreparedLanczos):
        return solver.system
    used = getattr(solver, "operator", operator)  # perhaps over fewer examples
    return Lanczos(rank=rank).prepare(used).system
