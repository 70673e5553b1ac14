"""`fastif correct`: steps on the training examples that help where a model fails, beside steps on others."""

from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import typer

from fastif.cli import iteration_options as own
from fastif.cli import options
from fastif.cli.console import OUT, Bars, note, print_json
from fastif.cli.draw_correction import draw_correction
from fastif.cli.iterating import (
    CHECKPOINT,
    draw_figure,
    head_of,
    into_run,
    judged,
    kinds_of,
    plan_of,
    walks,
    write_checkpoint,
)
from fastif.cli.material import read_material
from fastif.errors import ConfigurationError
from fastif.keeping import Keep, nothing_kept
from fastif.progress import Progress
from fastif.store import RunStore

NOTHING_WRITTEN = "Nothing is written: -o DIR says where to."
EPILOG = "Example: fastif correct runs/why --anchors failing.csv --test test.csv --learning-rate 0.003 -o runs/fix"


def correct(
    run: own.Run,
    anchors: own.Anchors,
    test: Annotated[str, typer.Option("--test", help="Labelled texts to measure on; they choose nothing.")],
    original: own.Original = None,
    out: own.Out = None,
    force: own.Force = False,
    effect: own.EffectOption = None,
    update: own.UpdateOption = own.Update.GRADIENT,
    steps: own.Steps = 10,
    draw: own.Draw = 10,
    examples: own.ExamplesOption = 10,
    learning_rate: own.Rate = None,
    nearest: own.NearestOption = None,
    curvature: own.Curvature = own.CurvatureAt.EACH_STEP,
    damping: own.Damping = None,
    repeats: own.Repeats = 3,
    kinds: own.Kinds = "helpful,harmful,random,anchors",
    hold_out: own.HoldOut = 0.3,
    tolerance: own.Tolerance = 0.02,
    write: own.Write = "helpful",
    text: options.Text = None,
    text_pair: options.TextPair = None,
    label: options.Label = None,
    slice: own.Slice = None,
    anchors_slice: own.AnchorsSlice = None,
    test_slice: own.TestSlice = None,
    drop_unlabelled: options.DropUnlabelled = False,
    trust_remote_code: options.TrustRemoteCode = False,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Take steps on the training examples that help where a model fails, and see what that mends and what it breaks.

    Again and again: draw anchors, rank the training examples for them, take one step on the best. Beside it the same on
    harmful examples, on random ones and on the anchors themselves. After every step loss and accuracy are measured on
    every slice of the test set and on the original data. The corrected checkpoint is written only if it helps on
    anchors that were held out for choosing.
    """
    arguments = {**locals(), "pool": None}
    with Bars(quiet=as_json) as bars:
        result = perform(arguments, bars)
    if as_json:
        print_json(result)
    else:
        draw_correction(result, OUT)
    if out is not None:
        note(f"Written to {out}: correction.json{_figure(out)}{_model(result)}.")


def perform(arguments: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Do what the arguments of the command ask for, in a run directory where there is one."""
    it = SimpleNamespace(**arguments)
    plan_of(it)  # what is wrong with it is said before anything is loaded
    kinds = kinds_of(it)
    if it.force and it.out is None:
        raise ConfigurationError("--force writes a checkpoint, and without -o there is no place for it.")
    material = read_material(it)
    notes = material.check()

    def work(keep: Keep, states: Path | None) -> tuple[Any, dict[str, Any]]:
        iteration = walks(it, material, keep, states, progress)
        found = judged(it, material, iteration.run(kinds), what="training examples")
        return iteration, {**head_of("correct", it, material), "notes": notes, **found, "checkpoint": None}

    def make(store: RunStore) -> dict[str, Any]:
        iteration, result = work(store.piece, store.path / "parts")
        result["checkpoint"] = write_checkpoint(it, material, iteration, result, store.path / CHECKPOINT)
        result["summary"].append(what_was_written(result))
        draw_figure(store, result, "correction", title="Steps on training examples")
        return result

    def force(store: RunStore, result: dict[str, Any]) -> dict[str, Any]:
        iteration = walks(it, material, nothing_kept, None, progress)
        place = write_checkpoint(it, material, iteration, result, store.path / CHECKPOINT)
        result = {**result, "checkpoint": place}
        return {**result, "summary": [*result["summary"][:-1], what_was_written(result)]}

    if it.out is None:
        result = work(nothing_kept, None)[1]
        result["summary"].append(NOTHING_WRITTEN)
        return result
    return into_run("correction", arguments, material, make=make, force=force)


def what_was_written(result: dict[str, Any]) -> str:
    """Return in words what became of the checkpoint."""
    if result["checkpoint"] is None:
        return "No checkpoint is written; --force writes it all the same."
    helps = result["verdict"] is not None and result["verdict"]["helps"]
    return f"The corrected model is in {result['checkpoint']}" + ("." if helps else ", as --force asked for it.")


def _figure(out: Path) -> str:
    return ", correction.png" if (out / "correction.png").exists() else ""


def _model(result: dict[str, Any]) -> str:
    return ", and the corrected model" if result["checkpoint"] else ""
