"""The options that several commands share, each with its words of help."""

import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fastif.errors import ConfigurationError
from fastif.precision import Precision

DATA = "Data"
MODEL = "Model"
RUN = "Run"
AUTO = "auto"
UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


class Dtype(StrEnum):
    """What numbers are computed and kept in."""

    AUTO = "auto"
    FLOAT32 = "float32"
    TF32 = "tf32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT64 = "float64"


def precision(dtype: Dtype) -> Precision:
    """Return the precision of an explainer; float64 is a matter of the model."""
    return "auto" if dtype is Dtype.FLOAT64 else dtype.value  # type: ignore[return-value]


def read_bytes(words: str | None) -> int | None:
    """Return a number of bytes that was written with a unit.

    >>> read_bytes("16GiB"), read_bytes("2 MB")
    (17179869184, 2000000)
    """
    if words is None:
        return None
    text = words.strip().upper()
    unit = text.lstrip("0123456789. ")
    try:
        value = float(text.removesuffix(unit)) * UNITS[unit or "B"]
    except (ValueError, KeyError):
        value = 0.0
    if not value >= 1:
        raise ConfigurationError(f"--memory-budget {words} is no amount of memory: write it as 16GiB or 800MB.")
    return int(value)


def read_damping(words: str) -> Any:
    """Return a damping, or "auto"; refuse what is none, also where nothing would use it.

    >>> read_damping("1e-3"), read_damping("auto")
    (0.001, 'auto')
    """
    if words == AUTO:
        return AUTO
    try:
        value = float(words)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise typer.BadParameter(f'{words!r} is neither "auto" nor a finite number of at least 0.')
    return value


def damping_option(words: str, panel: str | None = None, **more: Any) -> Any:
    """Return the option of a damping, with what is said of it."""
    return typer.Option(
        "--damping", parser=read_damping, metavar="NUMBER|auto", help=words, rich_help_panel=panel, **more
    )


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
QuerySlice = Annotated[
    str | None,
    typer.Option(
        "--query-slice",
        help="The same of the queries; the column of --slice unless given, where they have it.",
        rich_help_panel=DATA,
    ),
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
Damping = Annotated[
    float | None,
    damping_option(
        "Added to the curvature; found (auto) unless given.",
        callback=lambda value: None if value == AUTO else value,
    ),
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
        help="auto: tf32 on a GPU, float32 elsewhere. float16 is fastest on a GPU, bfloat16 on a CPU that has "
        "instructions for it (on others it keeps the states of frozen layers in half the memory, and computes in "
        "float32). float64 for exactness.",
        rich_help_panel=RUN,
    ),
]
MOST_SEED = 2**63 - 1  # that a generator of torch takes
Seed = Annotated[
    int,
    typer.Option("--seed", min=0, max=MOST_SEED, help="Of everything that is drawn at random.", rich_help_panel=RUN),
]
MemoryBudget = Annotated[
    str | None,
    typer.Option("--memory-budget", help="What may be taken on the device, such as 16GiB.", rich_help_panel=RUN),
]
BatchSize = Annotated[
    int | None,
    typer.Option("--batch-size", min=1, help="Texts of a mean length that are computed together.", rich_help_panel=RUN),
]
Cache = Annotated[
    Path | None,
    typer.Option("--cache", help="Keep the states of frozen layers here, for later runs.", rich_help_panel=RUN),
]
Json = Annotated[bool, typer.Option("--json", help="Write JSON to stdout instead of tables.", rich_help_panel=RUN)]
