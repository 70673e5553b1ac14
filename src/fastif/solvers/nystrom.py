r"""Nystrom: a low-rank stand-in for H from one pass over the data, as a preconditioner for conjugate gradients.

From an orthonormal random $\Omega$ (p x r) and $Y = H \Omega$,
$\hat H = Y (\Omega^\top Y)^{-1} Y^\top = U \Lambda U^\top$. With $\lambda_r$ the smallest of $\Lambda$,
the preconditioner

$$P^{-1} v = (\lambda_r + \lambda) U (\Lambda + \lambda)^{-1} U^\top v + (v - U U^\top v)$$

leaves $P^{-1/2} (H + \lambda) P^{-1/2}$ with a condition number near $(\lambda_r + \lambda) / \lambda$.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fastif import vectors
from fastif.curvature import CurvatureOperator
from fastif.errors import ConfigurationError
from fastif.vectors import Block

COLUMNS = 2**20  # that are multiplied in double precision at one time


@dataclass(frozen=True)
class Nystrom:
    """Eigenvalues Lambda (r,) and eigenvectors U as rows (r, p) of the sketched H."""

    values: Tensor
    basis: Tensor
    like: Block

    @classmethod
    def sketch(cls, operator: CurvatureOperator, *, rank: int, seed: int) -> "Nystrom":
        """Sketch H with `rank` random vectors."""
        if operator.kind != "gauss-newton":
            raise ConfigurationError(
                "a Nystrom preconditioner needs a matrix without negative eigenvalues: use curvature='gauss-newton', "
                "or preconditioner_rows in place of preconditioner_rank."
            )
        like = operator.model.parameters
        test = torch.linalg.qr(vectors.flatten(vectors.random(like, rank, seed=seed)).T).Q.T
        image = vectors.flatten(operator(vectors.unflatten(test, like)))
        size = float(image.norm())
        # a small shift makes the Cholesky factor exist in spite of rounding; it is taken off again below
        shift = rank**0.5 * torch.finfo(image.dtype).eps * size
        image = image + shift * test
        pairs = zip(_parts(image), _parts(test), strict=True)
        core = torch.stack([one.double() @ other.double().T for one, other in pairs]).sum(dim=0)
        factor, failed = torch.linalg.cholesky_ex((core + core.T) / 2)
        if bool(failed):  # nothing bends, or rounding has the last word: conjugate gradients do without
            return cls(image.new_empty(0), image[:0], like)

        def root(part: Tensor) -> Tensor:
            solved: Tensor = torch.linalg.solve_triangular(factor, part.double(), upper=False)
            return solved

        grams = [root(part) @ root(part).T for part in _parts(image)]
        values, rotation = torch.linalg.eigh(torch.stack(grams).sum(dim=0))
        kept = values > max(10 * shift, 0.0)
        turn = rotation[:, kept].T / values[kept].sqrt()[:, None]
        basis = torch.cat([(turn @ root(part)).to(image) for part in _parts(image)], dim=1)
        return cls((values[kept] - shift).to(image.dtype), basis, like)

    @property
    def rank(self) -> int:
        """The number of eigenvectors kept."""
        return len(self.values)

    @property
    def description(self) -> str:
        """In a few words, what it is made of."""
        return f"Nystrom preconditioner of rank {self.rank}"

    def solve(self, block: Block, damping: float) -> Block:
        """Apply P^-1 to every vector of the block."""
        if not self.rank:
            return block
        flat = vectors.flatten(block)
        inside = flat @ self.basis.T
        weights = (self.values.min() + damping) / (self.values + damping) - 1
        return vectors.unflatten(flat + (inside * weights) @ self.basis, self.like)


def _parts(rows: Tensor) -> list[Tensor]:
    """Cut long rows: in double precision, all of them would take several times the memory."""
    return list(rows.split(COLUMNS, dim=1))
