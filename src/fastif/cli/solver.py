"""Which solver `fastif explain` takes, by name. Knobs of a solver are for Python; these are for comparison."""

from enum import StrEnum
from typing import Annotated, Any

import typer

import fastif
from fastif.cli import options
from fastif.errors import ConfigurationError
from fastif.solvers import Auto


class Name(StrEnum):
    """A solver, in a word."""

    AUTO = "auto"
    EXACT = "exact"
    WOODBURY = "woodbury"
    CG = "cg"
    LISSA = "lissa"
    PAPER = "paper"


Option = Annotated[
    Name,
    typer.Option(
        "--solver",
        help="How the curvature is inverted: auto chooses. lissa repeats at random, so that scores have standard "
        "errors; paper is the paper's own LiSSA, with the Hessian and a damping of its own.",
        rich_help_panel=options.RUN,
    ),
]


def asked(name: str, damping: float | str | None, seed: int) -> dict[str, Any]:
    """Return what an explainer is given for a solver by name and a damping; None and "auto" have it found."""
    if name == Name.PAPER and isinstance(damping, int | float):
        raise ConfigurationError(
            f"--damping {damping:g} would not be used: the paper's iteration has a damping of its own, damp x scale. "
            "Leave it out, or take --solver lissa."
        )
    made: dict[str, Any] = {
        Name.AUTO: lambda: Auto(seed=seed),
        Name.EXACT: fastif.Exact,
        Name.WOODBURY: lambda: fastif.Woodbury(seed=seed),
        Name.CG: lambda: fastif.ConjugateGradient(seed=seed),
        Name.LISSA: lambda: fastif.LiSSA(seed=seed),
        Name.PAPER: lambda: fastif.LiSSA.paper(seed=seed),
    }
    curvature = "hessian" if name == Name.PAPER else "gauss-newton"
    return {
        "solver": made[Name(name)](),
        "curvature": curvature,
        "damping": options.AUTO if damping is None else damping,
    }
