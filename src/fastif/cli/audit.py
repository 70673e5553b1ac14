"""`fastif audit`: likely label errors in a training set, and examples that the model had to learn by heart."""

import shutil
from enum import StrEnum
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

import fastif
from fastif.apps.audit import DEFAULT_RANKING, Audit, audit
from fastif.cli import options
from fastif.cli.console import OUT, Bars, note, print_json
from fastif.cli.draw_audit import draw_audit
from fastif.cli.explain import BATCH_SIZE
from fastif.cli.loading import as_examples, load_model, load_table, plain_arguments
from fastif.cli.rows import check_place, write_rows
from fastif.cli.suspects import suspects
from fastif.errors import ConfigurationError
from fastif.integrations.tables import TextTable
from fastif.keeping import Keep, nothing_kept
from fastif.prefix import PrefixCache
from fastif.progress import Progress
from fastif.solvers import Auto
from fastif.store import RunStore

if TYPE_CHECKING:
    from fastif.integrations.huggingface import TextClassifier, TextExamples

UNFINISHED = ".unfinished"
FORMATS = (".csv", ".jsonl")
EPILOG = "Example: fastif audit runs/sentiment --train train.csv -o suspects.csv"


class By(StrEnum):
    """What examples are ranked by."""

    LEFT_OUT = "left-out"
    SELF_INFLUENCE = "self-influence"
    LOSS = "loss"


def audit_command(
    model: Annotated[str, typer.Argument(help="Directory of a fine-tuned classifier, or its name on the hub.")],
    train: Annotated[
        str, typer.Option("--train", help="What it was trained on: jsonl, csv, tsv, parquet, or a hub name.")
    ],
    by: Annotated[
        By | None,
        typer.Option(
            "--by",
            help="What to rank by: the loss of the label had the model not been trained on the example (left-out), "
            f"self-influence, or plain loss. Unless given: {DEFAULT_RANKING}.",
        ),
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="Examples to list.")] = 50,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Write the listed examples here: a .csv or .jsonl file.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace that file if it is there.")] = False,
    memorized: Annotated[
        bool, typer.Option("--memorized", help="Look for examples learned by heart: rank by self-influence.")
    ] = False,
    damping: options.Damping = None,
    text: options.Text = None,
    text_pair: options.TextPair = None,
    label: options.Label = None,
    split: options.Split = None,
    drop_unlabelled: options.DropUnlabelled = False,
    trainable: options.Trainable = None,
    freeze_layers: options.FreezeLayers = None,
    max_length: options.MaxLength = None,
    trust_remote_code: options.TrustRemoteCode = False,
    cache: options.Cache = None,
    device: options.Device = None,
    dtype: options.DtypeOption = options.Dtype.AUTO,
    memory_budget: options.MemoryBudget = None,
    batch_size: options.BatchSize = None,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Find likely label errors in a training set, and examples that the model had to learn by heart.

    For each training example it says what the model would have predicted had it not been trained on it. A label that
    the model would not expect then is a wrong label, an outlier or a rare case: look before you delete.
    """
    arguments = {name: value for name, value in locals().items() if name not in ("out", "force", "as_json")}
    arguments["by"] = _ranking(by, memorized)
    if out is not None:
        check_place(out, force=force, formats=FORMATS, inputs=[train])
    with Bars(quiet=as_json) as bars:
        result = perform(arguments, out, bars)
    if out is not None:
        check_place(out, force=force, formats=FORMATS, inputs=[train])
        write_rows(out, result["suspects"])
        shutil.rmtree(_unfinished(out), ignore_errors=True)
    if as_json:
        print_json(result)
    else:
        draw_audit(result, OUT, in_file=out is not None)
    if out is not None:
        note(f"Written to {out}: {len(result['suspects']):,} examples with their texts.")


def perform(arguments: dict[str, Any], out: Path | None, progress: Progress) -> dict[str, Any]:
    """Do what the arguments of the command ask for, piece by piece beside the file where there is one."""
    it = SimpleNamespace(**arguments)
    model = load_model(
        it.model,
        device=it.device,
        dtype=it.dtype,
        trainable=it.trainable,
        freeze_layers=it.freeze_layers,
        max_length=it.max_length,
        trust_remote_code=it.trust_remote_code,
    )
    columns = {"text": it.text, "text_pair": it.text_pair, "label": it.label, "drop_unlabelled": it.drop_unlabelled}
    table = load_table(it.train, "train", split=it.split, **columns)

    def work(keep: Keep, states: Path | None) -> dict[str, Any]:
        examples = as_examples(model, table, "train")
        explainer = fastif.Explainer(
            model,
            examples,
            solver=Auto(seed=it.seed, eigenvectors=True),
            damping="auto" if it.damping is None else it.damping,
            batch_size=it.batch_size or BATCH_SIZE.get(model.device.type),
            progress=progress,
            prefix_cache=PrefixCache(directory=it.cache or states, storage=options.storage(it.dtype)),
            keep=keep,
            precision=options.precision(it.dtype),
            memory_budget=options.read_bytes(it.memory_budget),
        )
        return _told(explainer, examples, table, audit(explainer), it)

    if out is None:
        return work(nothing_kept, None)
    # what is listed, and how, changes nothing of the work
    listed = ("by", "top", "memorized")
    plain = {name: value for name, value in plain_arguments(arguments).items() if name not in listed}
    read = {"model": model.weights_sha256(), "train": table.sha256}
    with RunStore.begin(_unfinished(out), {"command": "audit", "arguments": plain, "read": read}) as store:
        return work(store.piece, store.path / "parts")


def _told(
    explainer: fastif.Explainer, examples: "TextExamples", table: TextTable, found: Audit, it: SimpleNamespace
) -> dict[str, Any]:
    """Return everything that is told of an audit, as JSON can hold it."""
    model = cast("TextClassifier", explainer.model)
    top = min(it.top, len(found))
    differing = None if found.suggested is None else int((found.suggested != examples.targets).sum())
    return {
        "model": model.name,
        "influence_through": model.parameters_in_words(),
        "train": {
            "source": table.source,
            "examples": len(table),
            "columns": str(table.columns),
            "sha256": table.sha256,
        },
        "unit": table.unit,
        "by": str(it.by),
        "memorized": it.memorized,
        "suspects": suspects(found, examples, table, by=it.by, top=top),
        "suggested_label_differs": differing,
        "top": top,
        "self_influence_and_loss_share": found.shared(top, "self-influence", "loss"),
        "notes": list(found.notes),
        "how": explainer.summary(),
        "provenance": explainer.provenance(),
    }


def _ranking(by: By | None, memorized: bool) -> By:
    if memorized and by not in (None, By.SELF_INFLUENCE):
        raise ConfigurationError(f"--memorized ranks by self-influence, and --by {by} asks for another ranking.")
    return By.SELF_INFLUENCE if memorized else by or By(DEFAULT_RANKING)


def _unfinished(out: Path) -> Path:
    """Return the directory in which an audit that was killed finds what it had."""
    return out.with_name(out.name + UNFINISHED)
