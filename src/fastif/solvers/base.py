"""Problem, solver, solution: what all solvers of (H + damping I) x = v share.

The problem is a `CurvatureOperator` H and a block of right-hand sides v. A solver is a frozen dataclass of its knobs.
It *prepares* what all right-hand sides and all dampings share (a decomposition, a preconditioner),
and what it prepared solves.
"""

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from fastif import vectors
from fastif.curvature import CurvatureOperator
from fastif.errors import ConfigurationError
from fastif.keeping import Tensors
from fastif.spectrum import Spectrum
from fastif.vectors import Block


@dataclass(frozen=True)
class Solution:
    """A block of solutions, and how far each can be trusted.

    `residual` is the relative residual ||(H + damping I) x - v|| / ||v|| of each vector, None where it has no meaning.
    `samples` are independent estimates whose mean is `value` (those of all vectors of the first repeat, then of the
    second, ...), and `standard_error` is their spread as the norm of the mean's standard error beside the mean's norm:
    both of solvers that draw at random, else None.
    """

    value: Block
    converged: Tensor
    residual: Tensor | None
    iterations: int
    method: str
    samples: Block | None = None
    standard_error: Tensor | None = None

    def residuals(self) -> list[float | None]:
        """Return the residual of each vector, None where there is none."""
        return [None] * len(self.converged) if self.residual is None else list(self.residual.tolist())

    def without_vectors(self) -> "Solution":
        """Return how far it can be trusted alone: the vectors of many solutions fill a GPU."""
        return replace(self, value={}, samples=None)

    def samples_by_vector(self) -> list[Block | None]:
        """Return, for each vector, its several estimates as a block; None where there are not several."""
        width = len(self.converged)
        if self.samples is None or self.standard_error is None:
            return [None] * width
        return [{name: tensor[row::width] for name, tensor in self.samples.items()} for row in range(width)]


def to_tensors(solution: Solution) -> Tensors:
    """Return a solution as tensors by name, so that it can be kept."""
    tensors = {f"value {name}": tensor for name, tensor in solution.value.items()}
    tensors |= {f"sample {name}": tensor for name, tensor in (solution.samples or {}).items()}
    for name in ("converged", "residual", "standard_error"):
        if getattr(solution, name) is not None:
            tensors[name] = getattr(solution, name)
    return {**tensors, "iterations": torch.tensor(solution.iterations)}


def from_tensors(tensors: Tensors, like: Block, method: str) -> Solution:
    """Return the solution that `to_tensors` took apart, on the device of a block."""
    device = next(iter(like.values())).device

    def block(kind: str) -> Block:
        return {name: tensors[f"{kind} {name}"].to(device) for name in like if f"{kind} {name}" in tensors}

    return Solution(
        block("value"),
        tensors["converged"],
        tensors.get("residual"),
        int(tensors["iterations"]),
        method,
        block("sample") or None,
        tensors.get("standard_error"),
    )


class PreparedSolver(Protocol):
    """A solver that has seen H."""

    @property
    def description(self) -> str:
        """In a few words, how it solves."""

    def spectrum(self) -> Spectrum | None:
        """Return what is known of H's eigenvalues; None if this solver never looks at H."""

    def solve(self, block: Block, damping: float) -> Solution:
        """Solve (H + damping I) x = v for every v of the block."""


class Solver(Protocol):
    """An algorithm and its knobs."""

    def prepare(self, operator: CurvatureOperator) -> PreparedSolver:
        """Do the work that all right-hand sides and all dampings share."""


def relative_residual(applied: Block, block: Block) -> Tensor:
    """Return ||applied - v|| / ||v|| for each vector; zero for v = 0, which every solver answers with 0."""
    size = vectors.norm(block)
    return vectors.norm(vectors.add(applied, block, -1.0)) / torch.where(size > 0, size, 1)


def summarise_repeats(samples: Block, repeats: int) -> tuple[Block, Tensor | None]:
    """Return the mean over repeats of each vector, and that mean's relative standard error (None of one repeat)."""
    grouped = {name: tensor.unflatten(0, (repeats, -1)) for name, tensor in samples.items()}
    mean = {name: tensor.mean(dim=0) for name, tensor in grouped.items()}
    if repeats == 1:
        return mean, None
    variance = torch.stack([vectors.as_rows(tensor.var(dim=0)).sum(dim=1) for tensor in grouped.values()]).sum(dim=0)
    size = vectors.norm(mean)
    return mean, ((variance / repeats).sqrt() / torch.where(size > 0, size, 1)).cpu()


def default_tolerance(operator: CurvatureOperator) -> float:
    """Return the relative residual to go to: what a dtype can hold, or tf32 where a GPU multiplies in it."""
    example = next(iter(operator.model.parameters.values()))
    if example.dtype == torch.float64:
        return 1e-6
    return 5e-3 if example.is_cuda and torch.get_float32_matmul_precision() != "highest" else 1e-4


def check_damping(damping: float) -> None:
    """Raise unless damping is a number that can be added to a diagonal."""
    if not 0 <= damping < float("inf"):
        raise ConfigurationError(
            f"damping must be zero or positive, not {damping}. It is added to the diagonal of H, so that a negative "
            'one makes H + damping I singular or indefinite. damping="auto" finds one.'
        )
