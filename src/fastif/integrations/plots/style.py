"""The look that all pictures share, and how they are written.

Helpful is blue and harmful is orange, which people with any kind of colour blindness tell apart. Knows matplotlib, and
nothing of what is drawn.
"""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from fastif.errors import ConfigurationError
from fastif.files import replacing

HELPFUL, HARMFUL, NEUTRAL, INK = "#0072B2", "#D55E00", "#8C8C8C", "#222222"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C8C")  # after Okabe and Ito
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
FORMATS = ("png", "svg", "pdf")
DOTS_PER_INCH = 160
LOOK: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "svg.hashsalt": "fastif",  # the same picture is the same file
}


@contextmanager
def look() -> Iterator[None]:
    """Within this context, pictures have the look of the project; the caller's settings come back after it."""
    with mpl.rc_context(LOOK):
        yield


def save(figure: Figure, path: str | Path, formats: Sequence[str] = ("png",)) -> list[Path]:
    """Write a picture as `path` with the ending of each format, whole or not at all, and return the files."""
    unknown = set(formats) - set(FORMATS)
    if unknown:
        raise ConfigurationError(f"a picture can be {', '.join(FORMATS)}, not {', '.join(sorted(unknown))}.")
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    written = []
    for kind in formats:
        file = path.with_name(f"{path.name}.{kind}")
        # no date in a file, so that the same picture is the same bytes
        metadata = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}[kind]
        # the salt counts when a picture is written, and not when it is drawn; and after a picture without a layout was
        # written once, matplotlib would give it the one that is usual here
        settings: Any = {"svg.hashsalt": LOOK["svg.hashsalt"], "figure.constrained_layout.use": False}
        with replacing(file) as temporary, mpl.rc_context(settings):
            figure.savefig(temporary, format=kind, dpi=DOTS_PER_INCH, metadata=metadata)
        written.append(file)
    return written


def save_small(
    figure: Figure, file: str | Path, *, pixels: int = 1200, inches: float = 10.5, most: int = 300_000
) -> None:
    """Write a PNG for a page: so narrow that its letters can be read at the width of a page, and of few colours.

    Args:
        figure: the picture.
        file: where it goes.
        pixels: its width at most.
        inches: the width that a wider figure gets first: letters keep their size, and panels become smaller.
        most: bytes, beyond which it gets fewer than 256 colours.
    """
    from PIL import Image

    wide, high = figure.get_size_inches()
    if wide > inches:
        figure.set_size_inches(inches, high * (inches / wide) ** 0.5)
    raw = io.BytesIO()
    with mpl.rc_context({"figure.constrained_layout.use": False}):  # as in `save`
        figure.savefig(raw, format="png", dpi=min(DOTS_PER_INCH, pixels / min(wide, inches)))
    raw.seek(0)
    with Image.open(raw) as opened:
        image = opened.convert("RGB")
    for colours in (256, 64, 32, 16):
        small = io.BytesIO()
        # this way rare colours stay, such as that of a single line
        few = image.quantize(colours, method=Image.Quantize.MAXCOVERAGE, kmeans=2, dither=Image.Dither.NONE)
        few.save(small, format="PNG", optimize=True)
        if small.tell() <= most:
            break
    with replacing(Path(file)) as temporary:
        temporary.write_bytes(small.getvalue())


def shown_name(name: str, letters: int = 28) -> str:
    r"""Return a name from the data as a picture can have it: cut, on one line, and no formula.

    >>> shown_name("costs $5"), shown_name("a very long name of a slice that goes on")
    ('costs \\$5', 'a very long name of a slice…')
    """
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in name).split())
    short = line if len(line) <= letters else line[: letters - 1].rstrip() + "…"
    return short.replace("$", r"\$")
