"""How the points of a walk are ranked, as explainers and plans have it: the paper's way, or a variant of it.

Knows settings and variants; neither data nor what walks are compared by.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fastif.apps.iteration import KINDS, Courses, Kind, Plan
from fastif.paper.context import Context
from fastif.paper.settings import CorrectionSettings
from fastif.paper.variants import PAPERS, Variant

SAME = "as the paper ranks, the same repeats"
UNRANKED: tuple[Kind, ...] = ("random", "anchors")


@dataclass(frozen=True)
class Ranking:
    """How points are ranked for anchors: as in the paper, or in a way that stands beside it."""

    context: Context
    wanted: CorrectionSettings
    variant: Variant = PAPERS

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of points that depend on it: random points and anchors are those of the paper's walks."""
        return KINDS if self.variant == PAPERS else ("helpful", "harmful")

    @property
    def options(self) -> dict[str, Any]:
        """Of explainers."""
        few = {"curvature_examples": self.wanted.curvature_examples}
        found = self.variant.options(self.wanted.solver, self.context.seed, **few)
        if self.variant.is_by_papers_solver:  # a walk solves at every step, and reads scores alone
            found["solver"] = found["solver"].unjudged()
        return {"precision": self.context.precision, "prefix_cache": self.context.models.states, **found}

    def plan(self, pool: int) -> Plan:
        """Return the knobs of the walk."""
        wanted, variant = self.wanted, self.variant
        return Plan(
            steps=wanted.steps,
            anchors=wanted.anchors,
            examples=wanted.points,
            learning_rate=wanted.learning_rate,
            # the paper ranks by influence, and steps by the plain gradient
            effect="finetune-step" if variant.gradient_dot else "retrain",
            nearest=None if variant.scan else min(wanted.k, pool),
            nearest_by=variant.by,
            repeats=wanted.repeats if variant == PAPERS else min(wanted.repeats, wanted.variant_repeats),
            seed=self.context.seed,
        )


def with_unranked(papers: Courses, other: Courses, repeats: int) -> Courses:
    """Return the walks of a variant with the random points and anchors of the paper's walks, which share the draws.

    Of both, as many repeats as the variant has. Given the paper's walks for the other too, these are cut alone.
    """
    kept: Mapping[Kind, Any] = {kind: each[:repeats] for kind, each in other.courses.items()}
    return replace(other, courses={**kept, **{kind: papers.courses[kind][:repeats] for kind in UNRANKED}})
