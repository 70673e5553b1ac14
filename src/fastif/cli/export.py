"""`fastif export`: the explorer of a run as one file that opens offline and can be mailed."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from fastif.cli import options
from fastif.cli.console import note, print_json
from fastif.errors import StoredFileError
from fastif.web.export import write_export
from fastif.web.payload import MOST_EDGES, make_payload
from fastif.web.source import read_run

EPILOG = "Example: fastif export runs/why why.html --redact"
Audit = Annotated[
    Path | None,
    typer.Option("--audit", help="A list that fastif audit -o wrote of the same training data, to show too."),
]


def export(
    run: Annotated[Path, typer.Argument(help="Directory of a finished run of fastif explain.")],
    out: Annotated[Path, typer.Argument(help="The file to write, .html.")],
    redact: Annotated[bool, typer.Option("--redact", help="Leave the training texts out.")] = False,
    audit: Audit = None,
    edges: Annotated[int, typer.Option("--edges", min=1, help="Edges of the graph to keep, at most.")] = MOST_EDGES,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    as_json: options.Json = False,
) -> None:
    """Write the explorer of a run as one page, which opens from disk without a network and can be mailed.

    It says how many training texts it embeds; --redact leaves them out.
    """
    if out.suffix.lower() not in (".html", ".htm"):
        raise StoredFileError(f"{out} must end in .html, so that a browser opens it.")
    if out.exists() and not force:
        raise StoredFileError(f"{out} exists. Choose another name, or replace it with --force.")
    payload = make_payload(read_run(run, audit=audit), redact=redact, most_edges=edges)
    written = write_export(payload, out)
    if as_json:
        print_json({**asdict(written), "file": str(written.file)})
    note(written.in_words())
