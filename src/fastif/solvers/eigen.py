r"""EigenSystem: what a solver has that knows eigenvalues and eigenvectors of H.

With eigenvalues $\Lambda$, orthonormal eigenvectors U and one eigenvalue c for all that is orthogonal to them,

$$(H + \lambda I)^{-1} v = U (\Lambda + \lambda)^{-1} U^\top v + (c + \lambda)^{-1} (v - U U^\top v).$$
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fastif import vectors
from fastif.errors import NegativeCurvatureError, SingularMatrixError
from fastif.solvers.base import Solution, check_damping
from fastif.spectrum import Spectrum
from fastif.vectors import Block, Vector


@dataclass(frozen=True)
class EigenSystem:
    """H = U diag(values) U^T + rest (I - U U^T), with the eigenvectors as columns of U."""

    values: Tensor
    basis: Tensor
    rest: float
    parameters: Vector
    description: str

    @classmethod
    def identity(cls, parameters: Vector) -> "EigenSystem":
        """Return the system of H = I."""
        example = next(iter(parameters.values()))
        nothing = torch.zeros(vectors.size(parameters), 0, dtype=example.dtype, device=example.device)
        return cls(nothing[0], nothing, 1.0, parameters, "identity")

    def spectrum(self) -> Spectrum:
        """Return all p eigenvalues."""
        values = self.values.cpu()
        weights = torch.ones_like(values)
        if self.has_rest:
            values = torch.cat([values, values.new_tensor([self.rest])])
            weights = torch.cat([weights, weights.new_tensor([self.basis.shape[0] - self.basis.shape[1]])])
        return Spectrum(values, weights, exact=True)

    def solve(self, block: Block, damping: float) -> Solution:
        """Solve by the formula at the top of this file."""
        self.check_definite(damping)
        right = vectors.flatten(block).to(self.basis)
        inside = right @ self.basis
        outside = right - inside @ self.basis.T
        scale = 1 / (self.rest + damping) if self.has_rest else 0.0
        solution = (inside / (self.values + damping)) @ self.basis.T + outside * scale
        size = right.norm(dim=1)
        residual = (self._apply(solution, damping) - right).norm(dim=1) / torch.where(size > 0, size, 1)
        value = vectors.unflatten(solution, self.parameters)
        return Solution(
            value, torch.ones(len(right), dtype=torch.bool, device="cpu"), residual.cpu(), 0, self.description
        )

    @property
    def has_rest(self) -> bool:
        """Whether some of space is orthogonal to all eigenvectors."""
        return self.basis.shape[1] < self.basis.shape[0]

    def _apply(self, rows: Tensor, damping: float) -> Tensor:
        inside = rows @ self.basis
        return (inside * self.values) @ self.basis.T + self.rest * (rows - inside @ self.basis.T) + damping * rows

    def check_definite(self, damping: float) -> None:
        """Raise unless H + damping I is positive definite."""
        check_damping(damping)
        spectrum = self.spectrum()
        rounding = 10 * torch.finfo(vectors.dtype(self.parameters)).eps * spectrum.scale  # no entry is better than that
        if spectrum.bottom + damping < -rounding:
            raise NegativeCurvatureError(
                f"the smallest eigenvalue of the curvature is {spectrum.bottom:.3g}, below minus the damping of "
                f"{damping:.3g}: the model is not at a minimum in that direction. Use damping of at least "
                f"{1.5 * abs(spectrum.bottom):.3g}; the Gauss-Newton matrix of a convex loss has no negative "
                "eigenvalue."
            )
        if spectrum.bottom + damping <= rounding:
            raise SingularMatrixError(
                f"the curvature matrix is singular (smallest eigenvalue {spectrum.bottom:.3g}, largest "
                f'{spectrum.top:.3g}) and the damping is {damping:.3g}, so it has no inverse. Use damping="auto" or a '
                f"number such as {0.005 * spectrum.top:.3g}."
            )
