"""Which solver fits a problem, when the user does not say."""

from dataclasses import dataclass

import torch

from fastif import memory
from fastif.curvature import CurvatureOperator
from fastif.solvers.base import PreparedSolver, Solver
from fastif.solvers.cg import ConjugateGradient
from fastif.solvers.demand import is_affordable
from fastif.solvers.exact import Exact, choose_form, dual_size, memory_needed
from fastif.solvers.kept_rows import RowsNotKeptError
from fastif.solvers.subspace import Subspace
from fastif.solvers.woodbury import Woodbury

EXACT_SIDE = 3000  # eigh of a larger matrix takes minutes on a CPU
EXACT_MEMORY = 2e9
EXACT_WORK = 1e8  # parameters x examples of the primal matrix; beyond it conjugate gradients answer first
# parameters x positions of all examples in a pass, so that it takes a few seconds; and the fewest examples to take
PASS_WORK = {"cpu": 5e10, "cuda": 5e11}
LEAST_SUBSAMPLE = {"cpu": 500, "cuda": 4096}
PRECONDITIONER_RANK = {"cpu": 100, "cuda": 32}  # at most
PRECONDITIONER_BYTES, PRECONDITIONER_PART = 2**26, 0.05  # what it may take: on a CPU, and of a GPU's memory
LEAST_RANK = 8  # fewer eigenvectors save next to nothing
EIGENVECTOR_BYTES = 2**29  # a few times as much while they are looked for


@dataclass(frozen=True)
class Auto:
    """What `solver="auto"` stands for: exact where that is soon done, else Woodbury's, else conjugate gradients.

    Where one pass over the data would take more than a few seconds, the curvature is the mean over examples drawn at
    random, as many as a few seconds allow: H is a mean, and some hundred effective directions are told apart by a few
    thousand examples. What was chosen is in the description of the method.

    Args:
        seed: of that draw.
        most: examples that H is the mean over, at most; None for as many as a few seconds allow.
        eigenvectors: for work that needs the eigenvectors of H alone, such as an audit: where exact is too much, take
            the strongest of them, as many as memory allows.
    """

    seed: int = 0
    eigenvectors: bool = False
    most: int | None = None

    def prepare(self, operator: CurvatureOperator) -> PreparedSolver:
        """Choose, and prepare what was chosen."""
        if self.most is None or self.most >= operator.examples:
            chosen = choose_solver(operator, seed=self.seed)
        else:
            chosen = _over_some(operator, min(self.most, affordable_examples(operator) or self.most), self.seed)
        if self.eigenvectors and isinstance(chosen, ConjugateGradient | Woodbury):
            chosen = Subspace(affordable_rank(operator), subsample=chosen.subsample, seed=self.seed)
        if not isinstance(chosen, Woodbury):
            return chosen.prepare(operator)
        try:
            return chosen.prepare(operator)
        except RowsNotKeptError:  # layers that depend on the data
            return _iterating(operator, chosen.subsample, self.seed).prepare(operator)


def choose_solver(operator: CurvatureOperator, *, seed: int = 0) -> Solver:
    """Return `Exact` where the dense matrix is small and soon made, else `Woodbury` or `ConjugateGradient`."""
    form = choose_form(operator)
    side = dual_size(operator) if form == "dual" else operator.size
    soon = form == "dual" or operator.size * operator.examples <= EXACT_WORK
    if side <= EXACT_SIDE and soon and memory_needed(operator, form) <= EXACT_MEMORY:
        return Exact(form)
    return _over_some(operator, affordable_examples(operator), seed)


def _over_some(operator: CurvatureOperator, subsample: int | None, seed: int) -> Solver:
    """Return the solver that takes H over so many examples, None for all."""
    used = operator if subsample is None else operator.subsample(subsample, seed=seed)
    if is_affordable(used):
        return Woodbury(subsample=subsample, seed=seed)
    return _iterating(operator, subsample, seed)


def _iterating(operator: CurvatureOperator, subsample: int | None, seed: int) -> ConjugateGradient:
    used = operator if subsample is None else operator.subsample(subsample, seed=seed)
    return ConjugateGradient(subsample=subsample, preconditioner_rank=affordable_preconditioner(used), seed=seed)


def affordable_rank(operator: CurvatureOperator) -> int:
    """Return how many eigenvectors fit into memory."""
    size = sum(tensor.nbytes for tensor in operator.model.parameters.values())
    return int(max(4, min(64, EIGENVECTOR_BYTES // size)))


def affordable_preconditioner(operator: CurvatureOperator) -> int:
    """Return the rank of a preconditioner that costs less than it saves, made once: 0 for none.

    On a GPU many vectors cost little more than one; on a CPU that holds where they are small.
    """
    device = _device(operator)
    if operator.kind != "gauss-newton":
        return 0
    size = sum(tensor.nbytes for tensor in operator.model.parameters.values())
    fits = memory.share(device, PRECONDITIONER_PART, PRECONDITIONER_BYTES) // size
    most = min(operator.size, dual_size(operator)) // 2  # more of them would be the whole of H
    rank = min(PRECONDITIONER_RANK["cpu" if device.type == "cpu" else "cuda"], fits, most)
    return rank if rank >= LEAST_RANK else 0


def affordable_examples(operator: CurvatureOperator) -> int | None:
    """Return over how many examples a pass takes a few seconds, None if that is all of them."""
    device = _device(operator).type
    lengths = operator.data.lengths
    positions = 1.0 if lengths is None else float(lengths.double().mean())
    kind = device if device in PASS_WORK else "cuda"
    most = max(LEAST_SUBSAMPLE[kind], int(PASS_WORK[kind] / (operator.size * positions)))
    return None if most >= operator.examples else most


def _device(operator: CurvatureOperator) -> torch.device:
    return next(iter(operator.model.parameters.values())).device
