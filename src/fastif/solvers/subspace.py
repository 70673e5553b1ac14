r"""Subspace: the r strongest eigenvectors of H from a few passes over the data, many vectors at a time.

A random block is multiplied by H and made orthonormal a few times, which turns it towards the strongest eigenvectors;
then $Q^\top H Q$ is decomposed. Lanczos needs one pass for every vector of its basis and finds each eigenvector to a
tolerance; here a pass serves the whole block, and of a spectrum that falls slowly the last of them are mixtures of
eigenvectors of about the same eigenvalue. $V^\top H V$ is diagonal all the same. It solves as Lanczos does.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fastif import vectors
from fastif.curvature import CurvatureOperator
from fastif.derivatives import require_finite
from fastif.errors import ConfigurationError
from fastif.solvers.eigen import EigenSystem
from fastif.solvers.lanczos import PreparedLanczos


@dataclass(frozen=True)
class Subspace:
    """Solve with a low-rank H.

    Args:
        rank: r, eigenvectors to keep.
        passes: products with H of the whole block; the last gives the eigenvalues.
        subsample: take H over so many examples, drawn once; all of them unless given.
        seed: of the first block and the subsample.
    """

    rank: int = 32
    passes: int = 3
    subsample: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ConfigurationError(f"rank must be at least 1, not {self.rank}.")
        if self.passes < 2:
            raise ConfigurationError(f"passes must be at least 2, not {self.passes}.")

    def prepare(self, operator: CurvatureOperator) -> PreparedLanczos:
        """Find the eigenvectors."""
        operator = operator.subsample(self.subsample, seed=self.seed)
        parameters = operator.model.parameters
        rank = min(self.rank, operator.size)
        block = vectors.flatten(vectors.random(parameters, rank, seed=self.seed)).T
        for done in range(self.passes):
            operator.progress("eigenvectors", done, self.passes)
            basis = torch.linalg.qr(block)[0]
            block = _times(operator, basis)
        operator.progress("eigenvectors", self.passes, self.passes)
        small = (basis.T @ block).double()
        values, rotation = torch.linalg.eigh((small + small.T) / 2)
        words = f"{rank} eigenvectors by {self.passes} passes over {operator.examples:,} examples"
        system = EigenSystem(
            values.to(basis), basis @ rotation.to(basis), operator.weight_decay, parameters, description=words
        )
        return PreparedLanczos(operator, system, self.seed)


def _times(operator: CurvatureOperator, columns: Tensor) -> Tensor:
    image = vectors.flatten(operator(vectors.unflatten(columns.T, operator.model.parameters))).T
    require_finite(image)
    return image
