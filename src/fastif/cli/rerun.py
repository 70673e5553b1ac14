"""`fastif rerun`: do a run again, and say whether it came out the same."""

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

import fastif
from fastif.cli import options
from fastif.cli.console import OUT, Bars, print_json
from fastif.cli.explain import Named, perform, recorded
from fastif.cli.options import Dtype
from fastif.errors import StoredFileError
from fastif.store import RunStore

EPILOG = "Example: fastif rerun runs/why"


def rerun(
    run: Annotated[Path, typer.Argument(help="Directory of a finished run.")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Keep the new run here; thrown away unless given.")
    ] = None,
    trust_remote_code: options.TrustRemoteCode = False,
    as_json: options.Json = False,
) -> None:
    """Replay a run with the arguments it was made with, and compare the scores.

    Says which of the model, the training data and the queries have changed since, if any. The exit status is 0 only if
    none has, and the scores are the same byte for byte; else 1.
    """
    before = RunStore.read(run)
    if before.request.get("command") != "explain":
        raise StoredFileError(f"{run} is a run of {before.request.get('command')}, which cannot be replayed.")
    if out is not None and out.resolve() == run.resolve():
        raise StoredFileError(f"{out} is the run itself; choose another directory for the new one.")
    with tempfile.TemporaryDirectory() as scratch:
        place = out or Path(scratch) / "run"
        arguments = recorded(before)
        arguments["dtype"] = Dtype(arguments["dtype"])
        arguments["trust_remote_code"] = trust_remote_code  # never of the run, which somebody else may have made
        as_given = {**before.request["arguments"], "trust_remote_code": trust_remote_code}
        with Bars(quiet=as_json) as bars:
            perform(arguments, place, bars, named=Named(as_given, before.origin))
        told = _compared(before, RunStore.read(place))
    if as_json:
        print_json(told)
    else:
        OUT.print("The same scores, byte for byte." if told["same_bytes"] else _difference(told))
        for name in told["changed"]:
            OUT.print(f"The {name} is not what it was then.")
    if told["changed"] or not told["same_bytes"]:
        raise typer.Exit(1)


def _compared(before: RunStore, after: RunStore) -> dict[str, Any]:
    old, new = (fastif.Scores.load(store.file("scores.json").with_suffix("")).values for store in (before, after))
    then, now = before.request["read"], after.request["read"]
    comparable = old.shape == new.shape
    return {
        "same_bytes": before.file("scores.safetensors").read_bytes() == after.file("scores.safetensors").read_bytes(),
        "largest_difference": float((old - new).abs().max()) if comparable else None,
        "largest_score": float(old.abs().max()),
        "changed": sorted(name for name in then if then[name] != now.get(name)),
    }


def _difference(told: dict[str, Any]) -> str:
    if told["largest_difference"] is None:
        return "The scores differ in number: the data or the choice of queries is another."
    return f"The scores differ by {told['largest_difference']:.3g} at most; the largest is {told['largest_score']:.3g}."
