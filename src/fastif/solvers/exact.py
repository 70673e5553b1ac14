r"""Exact: the curvature matrix written out and decomposed once, so that any damping and any query is then a product.

*Primal*: the p x p matrix, column by column, or for Gauss-Newton $A^\top A$ where that costs less; A stacks the rows
$\Lambda_i^{1/2} J_i / \sqrt n$ of all examples. *Dual* (Gauss-Newton only): the m x m matrix $A A^\top$ has the same
eigenvalues other than zero; m is at most (C - 1) n for cross-entropy, far below p for a large model and a small
training set. Both end in an `EigenSystem`. Dense algebra is in float64 whatever the model's dtype.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fastif import vectors
from fastif.curvature import CurvatureOperator
from fastif.derivatives import MOST_VECTORS_AT_ONCE, require_finite
from fastif.errors import ConfigurationError
from fastif.solvers.eigen import EigenSystem

Form = Literal["auto", "primal", "dual"]
ROWS_PER_POSITION = 12  # up to which rows are cheaper than columns, on a perceptron of 1,000 to 2,000 parameters


@dataclass(frozen=True)
class Exact:
    """Solve by the eigendecomposition of the dense matrix.

    Args:
        form: "primal", "dual", or "auto" for the smaller of the two.
        memory: bytes that the dense matrices may take; a problem that needs more is refused before it starts.
    """

    form: Form = "auto"
    memory: float = 8e9

    def __post_init__(self) -> None:
        if self.form not in ("auto", "primal", "dual"):
            raise ConfigurationError(f"form must be 'auto', 'primal' or 'dual', not {self.form!r}.")

    def prepare(self, operator: CurvatureOperator) -> EigenSystem:
        """Decompose the curvature matrix."""
        if self.form == "dual" and operator.kind != "gauss-newton":
            raise ConfigurationError("the dual form exists for curvature='gauss-newton' only; use form='primal'.")
        form = choose_form(operator) if self.form == "auto" else self.form
        needed = memory_needed(operator, form)
        if needed > self.memory:
            raise ConfigurationError(
                f"an exact solve in {form} form needs about {needed / 1e9:,.1f} GB for {operator.size:,} parameters "
                f"and {operator.examples:,} examples, more than the {self.memory / 1e9:,.1f} GB allowed. Use "
                "fastif.ConjugateGradient(), choose fewer parameters with trainable=, or raise Exact(memory=...)."
            )
        return _dual(operator) if form == "dual" else _primal(operator)


def choose_form(operator: CurvatureOperator) -> Form:
    """Return the form with the smaller matrix."""
    return "dual" if operator.kind == "gauss-newton" and dual_size(operator) < operator.size else "primal"


def dual_size(operator: CurvatureOperator) -> int:
    """Return a bound on m, the Jacobian rows of all examples, as far as a few of them tell."""
    return operator.rows_per_example * operator.examples


def memory_needed(operator: CurvatureOperator, form: Form) -> float:
    """Return the bytes of the matrices at the peak: the matrix, its eigenvectors and the work space of eigh."""
    p = operator.size
    if form == "primal":
        return 8.0 * 4 * p * p
    m = dual_size(operator)
    return 8.0 * (3 * m * p + 4 * m * m)


def _primal(operator: CurvatureOperator) -> EigenSystem:
    p = operator.size
    matrix = _by_rows(operator) if rows_are_cheaper(operator) else _by_columns(operator)
    require_finite(matrix)
    values, basis = torch.linalg.eigh((matrix + matrix.T) / 2)
    return EigenSystem(values, basis, 0.0, operator.model.parameters, f"exact, {p:,} x {p:,} matrix")


def rows_are_cheaper(operator: CurvatureOperator) -> bool:
    """Whether the primal matrix is made from Jacobian rows.

    With r rows an example that is one product of 2 n r p^2 operations; the columns take p derivatives over all n
    examples and T positions of each, some 8 n T p^2 operations, less well done.
    """
    if operator.kind != "gauss-newton":
        return False
    return operator.rows_per_example <= ROWS_PER_POSITION * operator.jacobian.positions


def _by_columns(operator: CurvatureOperator) -> Tensor:
    """Return the curvature matrix from its products with unit vectors."""
    p = operator.size
    parameters = operator.model.parameters
    matrix = torch.empty(p, p, dtype=torch.float64, device=next(iter(parameters.values())).device)
    for start in range(0, p, MOST_VECTORS_AT_ONCE):
        operator.progress("curvature matrix", start, p)
        columns = torch.zeros(min(MOST_VECTORS_AT_ONCE, p - start), p, dtype=matrix.dtype, device=matrix.device)
        columns.diagonal(start).fill_(1)
        matrix[start : start + len(columns)] = vectors.flatten(operator(vectors.unflatten(columns, parameters)))
    operator.progress("curvature matrix", p, p)
    return matrix


def _by_rows(operator: CurvatureOperator) -> Tensor:
    r"""Return the Gauss-Newton matrix $A^\top S A$, summed up over the rows A of one batch after another."""
    device = next(iter(operator.model.parameters.values())).device
    matrix = torch.zeros(operator.size, operator.size, dtype=torch.float64, device=device)
    for rows, signs in _signed_rows(operator):
        matrix.addmm_(rows.T, signs[:, None] * rows)
    matrix /= operator.examples
    matrix.diagonal().add_(operator.weight_decay)
    return matrix


def _dual(operator: CurvatureOperator) -> EigenSystem:
    factor, sign = _factor(operator)
    require_finite(factor)
    values, rotation = torch.linalg.eigh(factor @ factor.T)
    kept = values > len(values) * torch.finfo(values.dtype).eps * values[-1:]  # none, if the loss does not bend
    values, rotation = values[kept], rotation[:, kept]
    basis = factor.T @ rotation
    basis /= values.sqrt()
    if bool((sign < 0).any()):  # the loss is not convex in the outputs: what is left is a small signed problem
        root = rotation * values.sqrt()
        values, inner = torch.linalg.eigh(root.T @ (sign[:, None] * root))
        basis = basis @ inner
    decay = operator.weight_decay
    description = f"exact, {len(factor):,} x {len(factor):,} matrix in the dual"
    return EigenSystem(values + decay, basis, decay, operator.model.parameters, description)


def _factor(operator: CurvatureOperator) -> tuple[Tensor, Tensor]:
    r"""Return A of $G = A^\top S A$ in float64, (m, p), and the signs S, written into memory taken once.

    More of it is taken where outputs are of unequal lengths, and some longer than those that were seen.
    """
    device = next(iter(operator.model.parameters.values())).device
    factor = torch.empty(dual_size(operator), operator.size, dtype=torch.float64, device=device)
    signs: list[Tensor] = []
    done = 0
    for rows, sign in _signed_rows(operator):
        if done + len(sign) > len(factor):
            factor = torch.cat([factor[:done], factor.new_empty(max(len(sign), done // 2), operator.size)])
        factor[done : done + len(sign)] = rows
        signs.append(sign)
        done += len(sign)
    factor = factor[:done]
    factor /= operator.examples**0.5
    return factor, torch.cat(signs) if signs else factor[:, 0]


def _signed_rows(operator: CurvatureOperator) -> Iterator[tuple[Tensor, Tensor]]:
    r"""Yield rows $|\Lambda_i|^{1/2} J_i$ in float64 and the signs of $\Lambda_i$, those that are zero left out."""
    done = 0
    for batch in operator.batches():
        operator.progress("curvature matrix", done, operator.examples)
        for rows, signs in operator.jacobian.signed_rows(batch):
            kept = signs != 0
            yield vectors.flatten(rows)[kept].double(), signs[kept]
        done += len(batch)
    operator.progress("curvature matrix", done, operator.examples)
