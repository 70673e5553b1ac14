"""The program `fastif`: its commands, and what happens when one of them fails.

A failure that fastif knows is one message on stderr and exit status 1, wrong usage is status 2; a traceback is for
those who ask for it with --debug.
"""

import os
import sys
import warnings
from typing import Annotated

import torch
import typer

import fastif
from fastif.cli import (
    apply,
    audit,
    augment,
    bench,
    bench_scaling,
    correct,
    demo,
    doctor,
    explain,
    export,
    graph,
    recall,
    reproduce,
    rerun,
    retrain,
    serve,
    several,
    simulate,
    slices,
    tradeoff,
    train,
)
from fastif.cli.console import ERR
from fastif.errors import ConfigurationError, FastifError, FastifWarning

# typer carries a click of its own in newer versions, so that what it raises is found through a class that it shows
_WrongUsage: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

app = typer.Typer(
    name="fastif",
    help="Which training examples made the model predict this, and how do I fix it?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo", epilog=demo.EPILOG)(demo.demo)
app.command("train", epilog=train.EPILOG)(train.train)
app.command("explain", epilog=explain.EPILOG)(explain.explain)
app.command("serve", epilog=serve.EPILOG)(serve.serve)
app.command("export", epilog=export.EPILOG)(export.export)
app.command("apply", epilog=apply.EPILOG)(apply.apply)
app.command("audit", epilog=audit.EPILOG)(audit.audit_command)
app.command("slices", epilog=slices.EPILOG)(slices.slices)
app.command("graph", epilog=graph.EPILOG)(graph.graph)
app.command("correct", epilog=correct.EPILOG)(correct.correct)
app.command("augment", epilog=augment.EPILOG)(augment.augment)
app.command("doctor")(doctor.doctor)
app.command("rerun", epilog=rerun.EPILOG)(rerun.rerun)
app.command("retrain", epilog=retrain.EPILOG)(retrain.retrain)
app.command("simulate", epilog=simulate.EPILOG)(simulate.simulate)
app.command("recall", epilog=recall.EPILOG)(recall.recall)
app.command("tradeoff", epilog=tradeoff.EPILOG)(tradeoff.tradeoff)
app.command("reproduce", epilog=reproduce.EPILOG)(reproduce.reproduce)
bench.app.command("scaling")(bench_scaling.scaling)
bench.app.command("index")(bench_scaling.index)
app.add_typer(bench.app, name="bench")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fastif {fastif.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of a failure. May stand anywhere on the line.")
    ] = False,
) -> None:
    """Read what stands before the command; --debug is taken off the line before that."""


def run(arguments: list[str] | None = None) -> int:
    """Run the program and return its exit status."""
    line = list(sys.argv[1:] if arguments is None else arguments)
    asked = several.LINE.set(line)
    try:
        return _run(line)
    finally:
        several.LINE.reset(asked)


def _run(line: list[str]) -> int:
    debug = "--debug" in line or bool(os.environ.get("FASTIF_DEBUG"))
    line = [word for word in line if word != "--debug"]
    warnings.showwarning = _show_warning
    try:
        status = app(line, standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        return _interrupted()
    except _WrongUsage as error:
        error.show()  # type: ignore[attr-defined]
        return 2
    except FastifError as error:
        if debug:
            raise
        _tell("Error:", _plain(error))
        return 2 if isinstance(error, ConfigurationError) else 1
    except torch.OutOfMemoryError as error:
        if debug:
            raise
        _tell(
            "Error:",
            f"the GPU has no memory left ({_plain(error).split('. ')[0]}). Other programs may hold it: see nvidia-smi. "
            "Else give a smaller --batch-size or --memory-budget, fewer layers, or --device cpu.",
        )
        return 1
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if debug:
            raise
        _tell(
            "Unexpected error:",
            f"{type(error).__name__}: {_plain(error)}\nThis should not happen. Run the same line with --debug for the "
            "traceback.",
        )
        return 1
    return int(status or 0)


def _tell(kind: str, words: str) -> None:
    """Tell an error, unless another process of the same command has told it."""
    if not several.is_told(words):
        ERR.print(f"[bold red]{kind}[/] {words}", highlight=False, soft_wrap=True)


def _interrupted() -> int:
    ERR.print("\nInterrupted.", highlight=False)
    return 130


def _plain(error: BaseException) -> str:
    """The words of an error, with nothing in them that rich would take for markup."""
    return str(error).replace("[", r"\[")


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """Show our own warnings in one line; those of libraries are for developers."""
    if issubclass(category, FastifWarning):
        ERR.print(f"[yellow]Warning:[/] {str(message).replace('[', chr(92) + '[')}", highlight=False, soft_wrap=True)
