"""The options that `fastif correct` and `fastif augment` share, each with its words of help."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fastif.apps.iteration import KINDS
from fastif.cli import options

STEPS = "Steps"


class Effect(StrEnum):
    """What ranks the examples."""

    FINETUNE_STEP = "finetune-step"
    RETRAIN = "retrain"


class Update(StrEnum):
    """What a step is."""

    GRADIENT = "gradient"
    NEWTON = "newton"


class CurvatureAt(StrEnum):
    """At which weights curvature is taken."""

    EACH_STEP = "each-step"
    START = "start"


Run = Annotated[Path, typer.Argument(help="Directory of a finished run of fastif explain.")]
Anchors = Annotated[
    str, typer.Option("--anchors", help="Labelled texts of the part where the model fails, not in the test set.")
]
Original = Annotated[
    str | None,
    typer.Option(
        "--original", help="Held-out texts of what must not be lost; a sample of the training data if not given."
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("-o", "--out", help="Run directory: numbers, figure, checkpoint; a run that was killed goes on."),
]
Force = Annotated[bool, typer.Option("--force", help="Write the checkpoint even if it does not help.")]
AnchorsSlice = Annotated[
    str | None,
    typer.Option("--anchors-slice", help="Take the anchors of this slice alone.", rich_help_panel=options.DATA),
]
TestSlice = Annotated[
    list[str] | None,
    typer.Option(
        "--test-slice", help="Look at this slice of the test set. May be repeated.", rich_help_panel=options.DATA
    ),
]
EffectOption = Annotated[
    Effect | None,
    typer.Option(
        "--effect",
        help="What ranks the examples: what a gradient step on them changes now (finetune-step), or what training on "
        "them more would (retrain). Unless given, the one that belongs to the update.",
        rich_help_panel=STEPS,
    ),
]
UpdateOption = Annotated[
    Update,
    typer.Option(
        "--update", help="Plain gradient steps, or -(H + damping)^-1 times the gradient.", rich_help_panel=STEPS
    ),
]
Curvature = Annotated[
    CurvatureAt,
    typer.Option("--curvature", help="H where the model is, or that of the start kept.", rich_help_panel=STEPS),
]
Steps = Annotated[int, typer.Option("--steps", min=1, help="Steps to take.", rich_help_panel=STEPS)]
Draw = Annotated[int, typer.Option("--draw", min=1, help="Anchors drawn for each step.", rich_help_panel=STEPS)]
ExamplesOption = Annotated[
    int, typer.Option("--examples", min=1, help="Examples that each step is taken on.", rich_help_panel=STEPS)
]
Rate = Annotated[
    float | None,
    typer.Option(
        "--learning-rate",
        help="Of a step: the paper's 1e-4 unless given, 1 for newton. Where no prediction changes, try 0.003.",
        rich_help_panel=STEPS,
    ),
]
NearestOption = Annotated[
    int | None,
    typer.Option(
        "--nearest", min=1, help="Rank the so many nearest to the anchors alone (paper: 1000).", rich_help_panel=STEPS
    ),
]
Repeats = Annotated[int, typer.Option("--repeats", min=1, help="Times, with other draws.", rich_help_panel=STEPS)]
Kinds = Annotated[str, typer.Option("--kinds", help=f"Of {','.join(KINDS)}, those to compare.", rich_help_panel=STEPS)]
HoldOut = Annotated[
    float,
    typer.Option(
        "--hold-out", min=0, max=0.9, help="Share of the anchors kept aside to choose by.", rich_help_panel=STEPS
    ),
]
Tolerance = Annotated[
    float,
    typer.Option(
        "--tolerance", min=0, max=1, help="Accuracy on the original data that may be lost.", rich_help_panel=STEPS
    ),
]
Write = Annotated[
    str, typer.Option("--write", help="The kind of steps whose weights are written.", rich_help_panel=STEPS)
]
Damping = Annotated[
    float | None,
    options.damping_option("Added to the curvature, or auto, which finds it; as for the run unless given.", STEPS),
]
Slice = Annotated[
    str | None,
    typer.Option("--slice", help="Column of anchors and test that names a row's slice.", rich_help_panel=options.DATA),
]
