"""Variants: what the paper left out, as other ways to rank training points that stand beside its own.

Each differs from what an experiment of the paper does in one thing: no curvature, another damping, other candidates,
all points, or weight decay where the authors' code has it. Knows the options of an explainer, and no experiment.
"""

from dataclasses import dataclass
from typing import Any, Literal

import fastif
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
    by: Literal["features", "head-gradient"] = "features"
    decay: float = 0.0

    @property
    def changes_scores(self) -> bool:
        """Whether the score of a point is another, and not only who is ranked."""
        return self.gradient_dot or self.damping is not None or self.decay > 0

    def options(self, papers: SolverSettings, seed: int) -> dict[str, Any]:
        """Return the options of an explainer, given the solver that the paper's experiment has.

        >>> Variant("all points", scan=True).options(SolverSettings(), seed=0)["damping"]
        50.0
        """
        if self.gradient_dot:
            return {"solver": fastif.Identity()}
        if self.damping is not None:
            return {"solver": Auto(seed=seed), "damping": self.damping}
        found: dict[str, Any] = {"solver": papers.solver(seed), "damping": papers.damping, "curvature": "hessian"}
        if self.decay:
            found |= {"weight_decay": 2 * self.decay, "weight_decay_in": "everything"}
        return found


PAPERS = Variant("as the paper ranks")


def beside(other_damping: float, decay: float = WEIGHT_DECAY) -> tuple[Variant, ...]:
    """Return all variants, with the damping that the paper has in other experiments.

    >>> [variant.name for variant in beside(50)][:3]
    ['gradient dot product', 'damping 50', 'automatic damping']
    """
    return (
        Variant("gradient dot product", gradient_dot=True),
        Variant(f"damping {other_damping:g}", damping=float(other_damping)),
        Variant("automatic damping", damping="auto"),
        Variant("nearest by head gradient", by="head-gradient"),
        Variant("all points, not the nearest alone", scan=True),
        Variant("weight decay in the gradients", decay=decay),
    )
