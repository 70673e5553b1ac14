"""`fastif serve`: the explorer of a run on a page of this machine, with a model that answers questions."""

import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

from fastif.cli import options
from fastif.cli.console import OUT, note, print_json
from fastif.cli.export import Audit
from fastif.cli.live import Questions, correction_of
from fastif.cli.opened import open_run
from fastif.errors import ConfigurationError
from fastif.web.payload import make_payload
from fastif.web.server.limits import LARGEST_RATE
from fastif.web.source import read_run

EPILOG = "Example: fastif serve runs/why --anchors failing_dev.csv --test failing_test.csv"
LOOPBACK = "127.0.0.1"
ACT = "Correct from the page"


def serve(
    run: Annotated[Path, typer.Argument(help="Directory of a finished run of fastif explain.")],
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; others than this machine's are a risk.")
    ] = LOOPBACK,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes any free one.")] = 0,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    audit: Audit = None,
    no_model: Annotated[
        bool, typer.Option("--no-model", help="Show the run alone; load no model, answer nothing.")
    ] = False,
    anchors: Annotated[
        str | None, typer.Option("--anchors", help="Labelled texts on which it should get better.", rich_help_panel=ACT)
    ] = None,
    test: Annotated[
        str | None, typer.Option("--test", help="Labelled texts to measure on.", rich_help_panel=ACT)
    ] = None,
    original: Annotated[
        str | None, typer.Option("--original", help="What must not be lost.", rich_help_panel=ACT)
    ] = None,
    slice: Annotated[
        str | None, typer.Option("--slice", help="Column with the slices of these tables.", rich_help_panel=ACT)
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(
            "--learning-rate",
            min=0,
            max=LARGEST_RATE,
            help="Of the steps; the page can choose another.",
            rich_help_panel=ACT,
        ),
    ] = None,
    trust_remote_code: options.TrustRemoteCode = False,
    as_json: options.Json = False,
) -> None:
    """Open the explorer of a run: a page on this machine, behind a random token, for nobody else.

    On the page you can type a text and see its prediction and its training examples; the model is loaded at the first
    question. Ends with Ctrl-C.
    """
    try:
        from fastif.web.server.app import make_app
        from fastif.web.server.serving import is_loopback, listen
        from fastif.web.server.serving import serve as serve_app
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f'fastif serve needs {error.name}, which is not installed: pip install "fastif[web]". fastif export writes '
            "the same page as a file and needs nothing more."
        ) from error
    opened = open_run(run, trust_remote_code=trust_remote_code)
    correction = correction_of(opened, anchors, test, original=original, slice=slice, learning_rate=learning_rate)
    payload = make_payload(read_run(run, audit=audit))
    workers: dict[Any, Any] = {} if no_model else {"ask": Questions(opened)}
    if correction is not None and not no_model:
        workers["correct"] = correction
    act: dict[str, Any] = (
        {} if correction is None else {"correction": correction.in_words(), "learning_rate": correction.rate}
    )
    address = listen(host, port)
    app = make_app(payload, token=address.token, hosts=address.names, workers=workers, **act)

    def ready() -> None:
        if as_json:
            print_json({"url": address.url, "host": host, "port": address.port})
        else:
            OUT.print(f"Open {address.url}", markup=False)
        if not is_loopback(host):
            note(f"Everybody who can reach {host} and has this address can read the run. It is not encrypted.")
        note("The address holds a token that is new each time. Ctrl-C ends it.")
        if open_page:
            webbrowser.open(address.url)

    serve_app(app, address, ready=ready)
