"""Which solver fits a problem, when the user does not say."""

from fastif.curvature import CurvatureOperator
from fastif.solvers.base import Solver
from fastif.solvers.cg import ConjugateGradient
from fastif.solvers.exact import Exact, choose_form, dual_size, memory_needed

EXACT_SIDE = 3000  # eigh of a larger matrix takes minutes on a CPU
EXACT_MEMORY = 2e9
EXACT_WORK = 1e8  # parameters x examples of the primal matrix; beyond it conjugate gradients answer first


def choose_solver(operator: CurvatureOperator) -> Solver:
    """Return `Exact` where the dense matrix is small and soon made, else `ConjugateGradient`."""
    form = choose_form(operator)
    side = dual_size(operator) if form == "dual" else operator.size
    soon = form == "dual" or operator.size * operator.examples <= EXACT_WORK
    if side <= EXACT_SIDE and soon and memory_needed(operator, form) <= EXACT_MEMORY:
        return Exact(form)
    return ConjugateGradient()
