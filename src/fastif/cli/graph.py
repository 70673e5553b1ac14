"""`fastif graph`: a picture of which training points act on which queries, slice by slice."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from fastif.apps.graph import Graph, Side, lay_out
from fastif.apps.telling import tell_graph
from fastif.cli import options, pictures, sliced
from fastif.cli.console import OUT, note, print_json
from fastif.cli.draw_slices import draw_words
from fastif.cli.opened import open_run
from fastif.cli.places import check_replaceable
from fastif.cli.sliced import Chosen

EPILOG = "Example: fastif graph runs/why --top 50 --split-train label -o graph.pdf"


def graph(
    run: Annotated[Path, typer.Argument(help="Directory of a finished run of fastif explain.")],
    top: sliced.Top = sliced.TOP,
    choose: sliced.Choose = Chosen.EACH,
    edges: Annotated[
        int | None, typer.Option("--edges", min=1, help="Draw so many edges, the strongest; all unless given.")
    ] = None,
    split_train: Annotated[
        str | None,
        typer.Option(
            "--split-train",
            help="Column of the training data by which its points get rings and colours: slice and label are those "
            "of the run, any other is read from the training data.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="A file (.png, .svg, .pdf) or a directory; RUN/graph unless given."),
    ] = None,
    force: pictures.Force = False,
    formats: Annotated[
        str | None,
        typer.Option(
            "--format", help="png, svg, pdf, or several with commas. Unless given: as the file of -o ends, or png."
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Draw the graph of influence of a run.

    Queries lie on a circle, one arc a slice, and each training point inside it where it is drawn to by those that it
    helps, and in a second circle by those that it harms: the weighted median of their places.
    """
    drawn = as_json and pictures.are_possible()
    if not as_json:  # then a picture is what is made: what is missing for it is said before any work
        drawn = bool(pictures.plots("graph"))
    place, kinds = pictures.place_and_formats(out or run / "graph", "graph", formats)
    own = place.resolve() == (run / "graph" / "graph").resolve()  # what is there, this command has written
    for file in pictures.files_of(place, kinds) if drawn else []:
        check_replaceable(file, force=force or own)
    opened = open_run(run)
    read = sliced.sliced_edges(opened, top, choose)
    rings = None if split_train is None else sliced.train_slices(opened, split_train)
    found = lay_out(read.edges, read.slices, train_slices=rings)
    title = f"Edges: {read.edges.choice}"
    files = []
    if drawn:
        figure = pictures.plots("graph").draw_graph(found, most_edges=edges, title=title)
        files = pictures.write(figure, place, kinds)
    summary = tell_graph(found)
    if as_json:
        limits = {"top": None if choose is Chosen.ALL else top, "choose": str(choose), "most_edges": edges}
        words = {"notes": read.notes, "summary": summary, "files": files}
        print_json({"run": str(run), **limits, "split_train": split_train, **_told(found), **words})
    else:
        draw_words(read.notes, summary, OUT)
    if files:
        note(f"Written to {', '.join(files)}.")


def _told(found: Graph) -> dict[str, Any]:
    """Return the numbers of a graph as JSON can hold them."""
    return {
        "queries": len(found.slices),
        "train_points": found.train_points,
        "edges": found.edges,
        "slices": [{"name": arc.name, "queries": arc.queries} for arc in found.arcs],
        "rings": [
            {**asdict(ring), **{side.sign: _ring(side, number) for side in found.sides}}
            for number, ring in enumerate(found.rings)
        ],
        **{
            side.sign: {
                "edges": len(side.edges),
                "train_points": len(side.train_ids),
                "sum": float(np.abs(side.edges.values).sum()),
            }
            for side in found.sides
        },
    }


def _ring(side: Side, number: int) -> dict[str, Any]:
    there = side.rings == number
    return {"train_points": int(there.sum()), "sum": float(side.strength[there].sum())}
