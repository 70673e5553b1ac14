"""The options that several commands share, each with its words of help."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

DATA = "Data"
MODEL = "Model"
RUN = "Run"


class Dtype(StrEnum):
    """What numbers are computed and kept in."""

    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BFLOAT16 = "bfloat16"


def storage(dtype: Dtype) -> Literal["model", "bfloat16"]:
    """Return what the states of frozen layers are kept in."""
    return "bfloat16" if dtype is Dtype.BFLOAT16 else "model"


Text = Annotated[
    str | None, typer.Option("--text", help="Column of the texts; guessed unless given.", rich_help_panel=DATA)
]
TextPair = Annotated[
    str | None, typer.Option("--text-pair", help="Column of the second texts, for pairs.", rich_help_panel=DATA)
]
Label = Annotated[
    str | None, typer.Option("--label", help="Column of the labels; guessed unless given.", rich_help_panel=DATA)
]
Slice = Annotated[
    str | None,
    typer.Option("--slice", help="Column that names the part of the data a row is of.", rich_help_panel=DATA),
]
Split = Annotated[str | None, typer.Option("--split", help="Split of a data set of the hub.", rich_help_panel=DATA)]
DropUnlabelled = Annotated[
    bool,
    typer.Option("--drop-unlabelled", help='Leave out rows without a label, "-" or -1.', rich_help_panel=DATA),
]
Trainable = Annotated[
    str | None,
    typer.Option(
        "--trainable",
        help='Parameters that influence is taken through: "all", or a regular expression over their names. Unless '
        "given: the last two layers and the head, or what an adapter trains.",
        rich_help_panel=MODEL,
    ),
]
FreezeLayers = Annotated[
    int | None,
    typer.Option("--freeze-layers", min=0, help="Instead: all above so many layers.", rich_help_panel=MODEL),
]
MaxLength = Annotated[
    int | None, typer.Option("--max-length", min=2, help="Tokens at which a text is cut.", rich_help_panel=MODEL)
]
TrustRemoteCode = Annotated[
    bool, typer.Option("--trust-remote-code", help="Run code that comes with the model.", rich_help_panel=MODEL)
]
Device = Annotated[
    str | None, typer.Option("--device", help='"cpu", "cuda", "cuda:1"; a GPU where there is one.', rich_help_panel=RUN)
]
DtypeOption = Annotated[
    Dtype,
    typer.Option(
        "--dtype",
        help="float32; float64 for exactness; bfloat16 keeps the states of frozen layers in half the memory and "
        "computes the rest in float32.",
        rich_help_panel=RUN,
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of everything that is drawn at random.", rich_help_panel=RUN)]
BatchSize = Annotated[
    int | None,
    typer.Option("--batch-size", min=1, help="Texts that are computed together.", rich_help_panel=RUN),
]
Cache = Annotated[
    Path | None,
    typer.Option("--cache", help="Keep the states of frozen layers here, for later runs.", rich_help_panel=RUN),
]
Json = Annotated[bool, typer.Option("--json", help="Write JSON to stdout instead of tables.", rich_help_panel=RUN)]
