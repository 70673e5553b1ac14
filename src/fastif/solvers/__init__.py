"""Solvers of (H + damping I) x = v, one algorithm a file."""

from fastif.solvers.auto import Auto, choose_solver
from fastif.solvers.base import PreparedSolver, Solution, Solver, check_damping
from fastif.solvers.cg import ConjugateGradient
from fastif.solvers.exact import Exact
from fastif.solvers.identity import Identity
from fastif.solvers.lanczos import Lanczos
from fastif.solvers.lissa import LiSSA
from fastif.solvers.woodbury import Woodbury

__all__ = [
    "Auto",
    "ConjugateGradient",
    "Exact",
    "Identity",
    "Lanczos",
    "LiSSA",
    "PreparedSolver",
    "Solution",
    "Solver",
    "Woodbury",
    "check_damping",
    "choose_solver",
]
