r"""RowMatrix: the matrix of inner products of Jacobian rows, $A A^\top$, decomposed once and inverted at any shift.

Both who solves by Woodbury's identity and who preconditions by it need the same: rows, the eigenvalues and eigenvectors
of their matrix, and the spectrum that these say the curvature has. Knows rows; nothing of solves or damping.
"""

import torch
from torch import Tensor

from fastif.curvature import CurvatureOperator
from fastif.derivatives import require_finite
from fastif.keeping import Tensors, content_sha256
from fastif.solvers.kept_rows import KeptRows
from fastif.spectrum import Spectrum

FITS = 1e-2  # relative; a matrix of other rows, or of the same in another order, is off by about one


class RowMatrix:
    """The rows of an operator, all or the `most` longest, and what their matrix is made of."""

    def __init__(self, operator: CurvatureOperator, most: int | None = None) -> None:
        self.rows, self.operator = KeptRows(operator, most), operator
        made: list[Tensors] = []

        def make() -> Tensors:
            made.append(self._decomposed())
            return made[0]

        kept = operator.keep(f"matrix of rows {content_sha256(self._order())}", make)
        if not (made or self._fits(kept)):  # on another machine, a row may be the negative of what it was
            kept = self._decomposed()
        self.values: Tensor = kept["values"].to(self._device)
        self.rotation: Tensor = kept["rotation"].to(self._device)

    @property
    def description(self) -> str:
        """In a few words, which rows they are."""
        rows = self.rows
        if rows.count == rows.seen:
            return f"{rows.count:,} Jacobian rows"
        return f"the longest {rows.count:,} of {rows.seen:,} Jacobian rows ({rows.share_of_trace:.1%} of the trace)"

    def inverse(self, right: Tensor, shift: float) -> Tensor:
        r"""Return $(A A^\top + \mathrm{shift}\, I)^{-1}$ times each row, in float64."""
        return ((right.double() @ self.rotation) / (self.values + shift)) @ self.rotation.T

    def spectrum(self) -> Spectrum:
        """Return the eigenvalues of the mean of rows; those of directions that no row points to are one number.

        Where rows were left out, what they hold of the trace is spread evenly over the directions that they may add.
        """
        operator, rows = self.operator, self.rows
        decay, size = operator.weight_decay, operator.size
        values = [self.values[-size:].cpu() / operator.examples + decay]
        weights = [torch.ones_like(values[0])]
        left_out = min(rows.seen, size) - len(values[0])
        if left_out > 0:
            trace = float(self.values.sum()) / operator.examples * (1 / rows.share_of_trace - 1)
            values.append(values[0].new_tensor([trace / left_out + decay]))
            weights.append(values[0].new_tensor([left_out]))
        untouched = size - len(values[0]) - max(left_out, 0)
        if untouched > 0:
            values.append(values[0].new_tensor([decay]))
            weights.append(values[0].new_tensor([untouched]))
        return Spectrum(torch.cat(values), torch.cat(weights), exact=rows.count == rows.seen)

    @property
    def _device(self) -> torch.device:
        return next(iter(self.operator.model.parameters.values())).device

    def _order(self) -> Tensors:
        """Return what tells these rows, in this order, from others."""
        return {"examples": self.rows.examples, "counts": torch.tensor([*self.rows.counts, self.operator.examples])}

    def _decomposed(self) -> Tensors:
        gram = self.rows.gram()
        require_finite(gram)
        values, rotation = torch.linalg.eigh(gram)
        return {"values": values.clamp(min=0.0), "rotation": rotation}  # below zero they are rounding

    def _fits(self, kept: Tensors) -> bool:
        """Whether the matrix is that of these rows, by its product with a random vector."""
        parameters = self.operator.model.parameters
        probe = torch.randn(1, self.rows.count, generator=torch.Generator().manual_seed(0)).to(self._device)
        probe = probe.to(next(iter(parameters.values())).dtype)
        nothing = {name: tensor.new_zeros(1, *tensor.shape) for name, tensor in parameters.items()}
        true = self.rows.times(self.rows.summed(probe, nothing)).double()
        values, rotation = kept["values"].to(self._device), kept["rotation"].to(self._device)
        found = ((probe.double() @ rotation) * values) @ rotation.T
        return bool((found - true).norm() <= FITS * true.norm())
