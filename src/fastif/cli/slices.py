"""`fastif slices`: how training points help and harm each part of the queries, and which parts they move alike."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fastif.apps.slices import Comparison, compare_slices
from fastif.apps.telling import tell_slices
from fastif.cli import options, pictures, sliced
from fastif.cli.console import OUT, note, print_json
from fastif.cli.draw_slices import draw_comparison
from fastif.cli.opened import open_run
from fastif.cli.places import check_replaceable
from fastif.cli.sliced import Chosen
from fastif.errors import StoredFileError
from fastif.files import replacing

NUMBERS, PICTURES = "slices.json", ("slices", "correlations")
EPILOG = "Example: fastif slices runs/why --choose strongest -o out/slices"


def slices(
    run: Annotated[Path, typer.Argument(help="Directory of a finished run of fastif explain.")],
    top: sliced.Top = sliced.TOP,
    choose: sliced.Choose = Chosen.EACH,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Directory for pictures and numbers; RUN/slices unless given.")
    ] = None,
    force: pictures.Force = False,
    formats: pictures.Formats = "png",
    no_pictures: Annotated[
        bool, typer.Option("--no-pictures", help="Numbers alone, as where matplotlib is not installed.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Compare the slices of the queries of a run.

    For each slice: how many helpful and harmful edges it has to training points, and their mean |I|. For every two:
    the correlation of influence over the training points that have an edge to both, and how many these are.
    """
    kinds = pictures.read_formats(formats)
    no_pictures = no_pictures or not pictures.are_possible()
    place = out or run / "slices"
    _check(place, [] if no_pictures else kinds, force=force or place.resolve() == (run / "slices").resolve())
    opened = open_run(run)
    read = sliced.sliced_edges(opened, top, choose)
    found = compare_slices(read.edges, read.slices, empty=read.empty)
    told: dict[str, Any] = {
        "run": str(run),
        "top": None if choose is Chosen.ALL else top,
        "choose": str(choose),
        **found.as_json(),
        "notes": read.notes,
        "summary": tell_slices(found),
    }
    files = [] if no_pictures else _draw(found, place, kinds)
    _write(place / NUMBERS, told)
    if as_json:
        print_json({**told, "files": [*files, str(place / NUMBERS)]})
    else:
        draw_comparison(found, read.notes, told["summary"], OUT)
    note(f"Written to {place}: {', '.join(Path(file).name for file in [*files, NUMBERS])}.")


def _check(place: Path, formats: list[str], *, force: bool) -> None:
    """Raise before any work if a file of somebody else would be replaced; in its own place are its own files."""
    for file in [place / NUMBERS, *(file for name in PICTURES for file in pictures.files_of(place / name, formats))]:
        check_replaceable(file, force=force)


def _draw(found: Comparison, place: Path, formats: list[str]) -> list[str]:
    plots = pictures.plots("slices")
    files = pictures.write(plots.draw_slices(found), place / PICTURES[0], formats)
    if len(found.slices) > 1:
        files += pictures.write(plots.draw_correlations(found), place / PICTURES[1], formats)
    return files


def _write(file: Path, told: dict[str, Any]) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as temporary:
            words = json.dumps(told, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
            temporary.write_text(words, encoding="utf-8")
    except OSError as error:
        raise StoredFileError(f"{file} could not be written: {error}. Choose another place with -o.") from error
