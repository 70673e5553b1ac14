"""The program `fastif`: its commands, and what happens when one of them fails.

A failure that fastif knows is one message on stderr and exit status 1, wrong usage is status 2; a traceback is for
those who ask for it with --debug.
"""

import errno
import os
import sys
import warnings
from typing import Annotated, Any

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
    missing,
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
from fastif.cli.console import tell, throw_output_away, writing_all
from fastif.cli.interrupts import INTERRUPTED, noted_interrupts, tell_interrupted
from fastif.errors import ConfigurationError, FastifError, FastifWarning

NO_PLACE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)

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
    with writing_all(), noted_interrupts() as interrupts:
        try:
            status = int(app(line, standalone_mode=False) or 0)
            sys.stdout.flush()  # while what a full disk says of it can still be told
        except (typer.Abort, KeyboardInterrupt):
            status = INTERRUPTED
        except _WrongUsage as error:
            _show_wrong_usage(error)
            return 2
        except BrokenPipeError:  # the reader of a pipe has seen enough
            throw_output_away()
            return 0
        except Exception as error:
            if interrupts:  # a library took the interrupt for a failure of its own
                status = INTERRUPTED
            elif debug:
                raise
            else:
                return _failed(error, line)
    # typer turns an interrupt into this status by itself, without a word
    if status == INTERRUPTED:
        tell_interrupted(line)
    return status


def _show_wrong_usage(error: Any) -> None:
    """Say what is wrong with the line, without what a library puts in front of it."""
    error.message = str(error.message).replace("Value error, ", "")
    error.show()


def _failed(error: Exception, line: list[str]) -> int:
    """Tell what went wrong, and return the exit status."""
    if isinstance(error, ModuleNotFoundError):
        words = missing.in_words(error, line)
        if words is not None:
            _tell("Error:", words)
            return 2
    if isinstance(error, FastifError):
        _tell("Error:", str(error))
        return 2 if isinstance(error, ConfigurationError) else 1
    if isinstance(error, torch.OutOfMemoryError):
        words = (
            f"the GPU has no memory left ({str(error).split('. ')[0]}). Other programs may hold it: see nvidia-smi. "
            "Else give a smaller --batch-size or --memory-budget, fewer layers, or --device cpu."
        )
        _tell("Error:", words)
    elif getattr(error, "errno", None) in NO_PLACE or "No space left" in str(error):  # as safetensors says it
        _tell("Error:", f"a file could not be written: {error}. Make room, or choose another place for it.")
    else:
        advice = "This should not happen. Run the same line with --debug for the traceback."
        _tell("Unexpected error:", f"{type(error).__name__}: {error}\n{advice}")
    return 1


def _tell(kind: str, words: str) -> None:
    """Tell an error, unless another process of the same command has told it."""
    if not several.is_told(words):
        tell(kind, words, style="bold red")


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """Show our own warnings in one line; those of libraries are for developers."""
    if issubclass(category, FastifWarning):
        tell("Warning:", str(message), style="yellow")
