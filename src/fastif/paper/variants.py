"""Variants: what the paper left out, as other ways to rank training points that stand beside its own.

No curvature; the paper's dampings and the automatic one by another solver, to be compared with each other; other
candidates, or all points; or weight decay where the authors' code has it. Knows the options of an explainer, and no
experiment.
"""

from dataclasses import dataclass
from typing import Any, Literal

import fastif
from fastif.candidates.nearest import By
from fastif.paper.solver_settings import SolverSettings
from fastif.solvers import Auto

DampingChoice = float | Literal["auto"]
WEIGHT_DECAY = 0.005  # of the paper's trainings; its authors add 0.005 ||theta||^2, without a half, to every loss


@dataclass(frozen=True)
class Variant:
    """A way to rank training points. With nothing but a name it is the paper's own.

    Args:
        name: of a line in a table.
        damping: another damping, or the library's own choice of it, with the library's own choice of solver.
        gradient_dot: rank by the plain product of gradients: what a step on a point changes now.
        scan: rank all points, and not the nearest alone.
        by: what is near: the paper's features, or the gradient of the head.
        decay: weight decay, as a factor of ||theta||^2, in the gradients of queries and training points too.
    """

    name: str
    damping: DampingChoice | None = None
    gradient_dot: bool = False
    scan: bool = False
    by: By = "features"
    decay: float = 0.0

    @property
    def changes_scores(self) -> bool:
        """Whether the score of a point is another, and not only who is ranked."""
        return self.gradient_dot or self.damping is not None or self.decay > 0

    @property
    def is_by_papers_solver(self) -> bool:
        """Whether the paper's iteration solves, and not the library's own choice or nothing at all."""
        return not self.gradient_dot and self.damping is None

    def options(self, papers: SolverSettings, seed: int, *, curvature_examples: int | None = None) -> dict[str, Any]:
        """Return the options of an explainer, given the solver that the paper's experiment has.

        Other dampings are by the library's own solver, with Gauss-Newton curvature: the paper's iteration would need
        other steps for each. Its H is the mean over as many examples as are given, or as the library chooses.

        >>> Variant("all points", scan=True).options(SolverSettings(), seed=0)["damping"]
        50.0
        """
        if self.gradient_dot:
            return {"solver": fastif.Identity()}
        if self.damping is not None:
            return {"solver": Auto(seed=seed, most=curvature_examples), "damping": self.damping}
        found: dict[str, Any] = {"solver": papers.solver(seed), "damping": papers.damping, "curvature": "hessian"}
        if self.decay:
            found |= decay_of_the_authors(self.decay)
        return found


def decay_of_the_authors(decay: float) -> dict[str, Any]:
    """Return the options of an explainer with weight decay where the authors have it, given as a factor of ||theta||^2.

    >>> decay_of_the_authors(0.005)
    {'weight_decay': 0.01, 'weight_decay_in': 'matrices'}
    """
    return {"weight_decay": 2 * decay, "weight_decay_in": "matrices"}


def damping_in_words(damping: float | None) -> str:
    """Return a damping with three digits, for a table.

    >>> damping_in_words(5000.0), damping_in_words(1.2481), damping_in_words(None)
    ('5000', '1.25', '-')
    """
    return "-" if damping is None else f"{float(f'{damping:.3g}'):g}"


PAPERS = Variant("as the paper ranks")


GRADIENT_DOT = Variant("gradient dot product", gradient_dot=True)
ALL_POINTS = Variant("all points, not the nearest alone", scan=True)
VARIANTS = (
    GRADIENT_DOT,
    Variant("damping 50, our solver", damping=50.0),
    Variant("damping 5000, our solver", damping=5000.0),
    Variant("automatic damping, our solver", damping="auto"),
    Variant("nearest by head gradient", by="head-gradient"),
    ALL_POINTS,
    Variant("weight decay in the gradients", decay=WEIGHT_DECAY),
)
