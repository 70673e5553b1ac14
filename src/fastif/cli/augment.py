"""`fastif augment`: which new labelled data to train on, for the part where a model fails."""

import inspect
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import typer

from fastif.apps.augmentation import RankedPool, rank_pool
from fastif.apps.iteration import Iteration
from fastif.cli import iteration_options as own
from fastif.cli import options
from fastif.cli.console import OUT, Bars, note, print_json
from fastif.cli.correct import NOTHING_WRITTEN, what_was_written
from fastif.cli.draw_correction import draw_augmentation
from fastif.cli.iterating import (
    CHECKPOINT,
    draw_figure,
    head_of,
    into_run,
    judged,
    kinds_of,
    options_of,
    plan_of,
    walks,
    write_checkpoint,
)
from fastif.cli.material import Material, read_material
from fastif.cli.opened import open_run
from fastif.cli.rows import Row, check_place, write_rows
from fastif.errors import ConfigurationError
from fastif.integrations.tables import TextTable
from fastif.keeping import Keep, nothing_kept
from fastif.progress import Progress
from fastif.store import RunStore

CHOSEN = "chosen.jsonl"
OF_STEPS = (  # the options that only steps have a use for
    *("steps", "draw", "examples", "learning_rate", "nearest", "curvature"),
    *("repeats", "kinds", "hold_out", "tolerance", "write"),
)
WHAT = "examples of the pool"
EPILOG = "Example: fastif augment runs/why --pool new.csv --anchors failing_dev.csv --export to_train_on.csv"


def augment(
    run: own.Run,
    pool: Annotated[str, typer.Option("--pool", help="New labelled texts to choose from.")],
    anchors: own.Anchors,
    test: Annotated[
        str | None, typer.Option("--test", help="Labelled texts to measure steps on the pool on; they choose nothing.")
    ] = None,
    original: own.Original = None,
    top: Annotated[int, typer.Option("--top", min=1, help="Rows of the pool to choose, the most helpful.")] = 100,
    export: Annotated[
        Path | None, typer.Option("--export", help="Write the chosen rows here: .jsonl, .csv or .parquet.")
    ] = None,
    out: own.Out = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the exported file; write the checkpoint even if it does not help.")
    ] = False,
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
    """Rank new labelled data by how much training on it helps where a model fails, and export the best rows.

    Curvature stays that of the data the model was trained on. With --test, steps are taken on rows of the pool as
    fastif correct takes them on the training data, and measured after each.
    """
    arguments = dict(locals())
    _tell_unused(arguments)
    inputs = [pool, anchors, test, original]
    if export is not None:
        inputs.append(open_run(run).arguments["train"])
        check_place(export, force=force, option="--export", inputs=inputs)
    with Bars(quiet=as_json) as bars:
        result = perform(arguments, bars)
    if export is not None:
        check_place(export, force=force, option="--export", inputs=inputs)
        write_rows(export, result["chosen"], columns=result["columns"], to_train_on=True)
    if as_json:
        print_json(result)
    else:
        draw_augmentation(result, OUT)
    if export is not None:
        note(f"Written to {export}: {len(result['chosen']):,} rows of the pool, the most helpful first.")
    if out is not None:
        note(
            f"Written to {out}: augmentation.json, {CHOSEN}"
            + (", and the figure." if (out / "augmentation.png").exists() else ".")
        )


def _tell_unused(arguments: dict[str, Any]) -> None:
    """Say which options were given for steps, where none are taken."""
    usual = inspect.signature(augment).parameters
    given = [name for name in OF_STEPS if arguments[name] != usual[name].default]
    if given and arguments["test"] is None:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        note(f"Not used: {names}. Steps on the pool are taken, and measured, with --test alone.")


def perform(arguments: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Do what the arguments of the command ask for, in a run directory where there is one."""
    it = SimpleNamespace(**arguments)
    plan_of(it)  # what is wrong with it is said before anything is loaded
    kinds = kinds_of(it)
    if it.force and it.out is None and it.export is None:
        raise ConfigurationError("--force is for files, and without -o or --export there are none.")
    material = read_material(it)
    notes = material.check()

    def work(keep: Keep, states: Path) -> tuple[Iteration | None, dict[str, Any]]:
        ranked = _ranked(it, material, keep, states, progress)
        result = {**head_of("augment", it, material), "notes": notes, **_told(it, material, ranked)}
        if material.test is None:
            return None, result
        iteration = walks(it, material, keep, states, progress)
        found = judged(it, material, iteration.run(kinds), what=WHAT)
        return iteration, {**result, **found, "summary": result["summary"] + found["summary"], "checkpoint": None}

    def make(store: RunStore) -> dict[str, Any]:
        iteration, result = work(store.piece, store.path / "parts")
        store.add_rows(CHOSEN, result["chosen"])
        if iteration is not None:
            result["checkpoint"] = write_checkpoint(it, material, iteration, result, store.path / CHECKPOINT)
            result["summary"].append(what_was_written(result))
            draw_figure(store, result, "augmentation", title="Steps on examples of the pool")
        return result

    def force(store: RunStore, result: dict[str, Any]) -> dict[str, Any]:
        iteration = walks(it, material, nothing_kept, None, progress)
        place = write_checkpoint(it, material, iteration, result, store.path / CHECKPOINT)
        result = {**result, "checkpoint": place}
        return {**result, "summary": [*result["summary"][:-1], what_was_written(result)]}

    if it.out is not None:
        return into_run("augmentation", arguments, material, make=make, force=force)
    with tempfile.TemporaryDirectory(prefix="fastif-states-") as scratch:
        result = work(nothing_kept, Path(scratch))[1]
    if material.test is not None:
        result["summary"].append(NOTHING_WRITTEN)
    return result


def _ranked(it: SimpleNamespace, material: Material, keep: Keep, states: Path, progress: Progress) -> RankedPool:
    """Rank the pool for all anchors: the rows that are exported are not measured by those held out."""
    return rank_pool(
        material.opened.model,
        material.pool_examples,
        anchors=material.anchor_examples,
        trained_on=material.opened.train,
        effect=plan_of(it).ranked_by,
        options={**options_of(it, material, states), "keep": keep, "progress": progress},
    )


def _told(it: SimpleNamespace, material: Material, ranked: RankedPool) -> dict[str, Any]:
    """Return the chosen rows, and what is said of the ranking."""
    table = material.pool
    assert table is not None
    best = ranked.best(it.top)
    names = _names(table)
    rows = [
        _row(table, names, index, score, rank)
        for rank, (index, score) in enumerate(zip(best.ids.tolist(), best.scores.tolist(), strict=True), 1)
    ]
    effect = {"finetune-step": "a gradient step on it now", "retrain": "training on it beside the data so far"}
    summary = [
        f"{ranked.helpful:,} of {len(table):,} rows of the pool help the {len(material.anchors):,} anchors, by what "
        f"{effect[plan_of(it).ranked_by]} would change; {len(rows):,} are chosen."
    ]
    if len(rows) < it.top:
        summary.append(f"{it.top:,} were asked for, and rows that do not help are not among them.")
    labels = ", ".join(f"{count} {name}" for name, count in _labels(table, best.ids.tolist()).items())
    if rows:
        summary.append(f"Their labels: {labels}.")
    return {
        "effect": plan_of(it).ranked_by,
        "helpful_in_pool": ranked.helpful,
        "columns": list(names),
        "chosen": rows,
        "ranked_how": ranked.how,
        "summary": summary,
    }


def _names(table: TextTable) -> dict[str, str]:
    """Return the columns of an exported row: those of the pool by their own names, and what is known of each."""
    own_names = {
        "text": table.columns.text,
        "text_pair": table.columns.text_pair,
        "label": table.columns.label,
    }
    taken = {name: role for role, name in own_names.items() if name is not None}
    extra = {(f"fastif_{name}" if name in taken else name): name for name in ("rank", "score", table.unit)}
    return {**extra, **taken}


def _row(table: TextTable, names: dict[str, str], index: int, score: float, rank: int) -> Row:
    values = {
        "rank": rank,
        "score": score,
        table.unit: table.lines[index],
        "text": table.texts[index],
        "text_pair": None if table.pairs is None else table.pairs[index],
        "label": None if table.labels is None else table.labels[index],
    }
    return {name: values[role] for name, role in names.items()}


def _labels(table: TextTable, ids: list[int]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for index in ids:
        name = str((table.labels or [])[index])
        counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items(), key=lambda each: -each[1]))
