"""Pictures on the command line: where they go, in which formats, and what to install for them."""

import importlib
from pathlib import Path
from typing import Annotated, Any

import typer

from fastif.cli.console import note
from fastif.errors import ConfigurationError, StoredFileError

FORMATS = ("png", "svg", "pdf")

Formats = Annotated[str, typer.Option("--format", help="Of pictures: png, svg, pdf, or several with commas.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that are there.")]


def plots(name: str) -> Any:
    """Return the module `fastif.integrations.plots.<name>`, or say what to install for it."""
    try:
        return importlib.import_module(f"fastif.integrations.plots.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise ConfigurationError(
            "pictures are drawn by matplotlib, which is not installed: pip install 'fastif[plots]'"
        ) from error


def are_possible() -> bool:
    """Whether pictures can be drawn; says so where not, as the numbers are worth having without them."""
    try:
        plots("style")
    except ConfigurationError:
        note("There is no figure, as matplotlib is not installed: pip install 'fastif[plots]'.")
        return False
    return True


def read_formats(words: str) -> list[str]:
    """Return the formats that are asked for.

    >>> read_formats("png, pdf")
    ['png', 'pdf']
    """
    formats = list(dict.fromkeys(word.strip().lower().removeprefix(".") for word in words.split(",")))
    if not set(formats) <= set(FORMATS):
        raise ConfigurationError(f"--format {words} must be of {', '.join(FORMATS)}, with commas between several.")
    return formats


def place_and_formats(out: Path, name: str, formats: str | None) -> tuple[Path, list[str]]:
    """Return the path of a picture without its ending, and its formats: of a file its own, else those asked for.

    >>> place_and_formats(Path("a/b.pdf"), "graph", None)
    (PosixPath('a/b'), ['pdf'])
    >>> place_and_formats(Path("a"), "graph", "png,svg")
    (PosixPath('a/graph'), ['png', 'svg'])
    """
    kind = out.suffix.lower().removeprefix(".")
    if kind in FORMATS and not out.is_dir():
        if formats is not None and read_formats(formats) != [kind]:
            raise ConfigurationError(
                f"-o {out} asks for {kind} and --format {formats} for something else. Give one of them, or a directory "
                "with -o, which takes pictures of several formats."
            )
        return out.with_suffix(""), [kind]
    return out / name, read_formats(formats or FORMATS[0])


def files_of(path: Path, formats: list[str]) -> list[Path]:
    """Return the files that a picture is written to.

    >>> [str(file) for file in files_of(Path("a/b"), ["png", "svg"])]
    ['a/b.png', 'a/b.svg']
    """
    return [path.with_name(f"{path.name}.{kind}") for kind in formats]


def write(figure: Any, path: Path, formats: list[str]) -> list[str]:
    """Write a picture in each format, and return the files."""
    try:
        return [str(file) for file in plots("style").save(figure, path, formats)]
    except OSError as error:
        raise StoredFileError(f"{path} could not be written: {error}. Choose another place with -o.") from error
