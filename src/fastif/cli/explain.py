"""`fastif explain`: the training examples behind some predictions."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

import fastif
from fastif.cli import options
from fastif.cli.console import OUT, Bars, note, print_json
from fastif.cli.draw import draw_explanation
from fastif.cli.evidence import explain_queries
from fastif.cli.loading import as_examples, load_model, load_table
from fastif.errors import ConfigurationError, StoredFileError
from fastif.files import replacing
from fastif.integrations.huggingface import TextClassifier
from fastif.integrations.tables import TextTable, table_of
from fastif.prefix import PrefixCache
from fastif.solvers import Auto

EPILOG = "Example: fastif explain runs/sentiment --train train.csv --query dev.csv --wrong -o runs/why"


def explain(
    model: Annotated[str, typer.Argument(help="Directory of a fine-tuned classifier, or its name on the hub.")],
    train: Annotated[
        str, typer.Option("--train", help="What it was trained on: jsonl, csv, tsv, parquet, or a hub name.")
    ],
    query: Annotated[
        str | None, typer.Option("--query", help="Texts to explain, in a file like that; labels are optional.")
    ] = None,
    query_text: Annotated[
        list[str] | None, typer.Option("--query-text", help="A text to explain, given here. May be repeated.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Directory for the scores of all training examples.")
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="Examples to show, of each kind.")] = 10,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Queries to explain, the first ones.")] = 5,
    wrong: Annotated[bool, typer.Option("--wrong", help="Explain wrong predictions alone; needs labels.")] = False,
    damping: Annotated[
        float | None, typer.Option("--damping", min=0, help="Added to the curvature; found unless given.")
    ] = None,
    text: options.Text = None,
    text_pair: options.TextPair = None,
    label: options.Label = None,
    slice: options.Slice = None,
    split: options.Split = None,
    query_split: Annotated[
        str | None,
        typer.Option("--query-split", help="Split of the queries, on the hub.", rich_help_panel=options.DATA),
    ] = None,
    drop_unlabelled: options.DropUnlabelled = False,
    trainable: options.Trainable = None,
    freeze_layers: options.FreezeLayers = None,
    max_length: options.MaxLength = None,
    trust_remote_code: options.TrustRemoteCode = False,
    cache: options.Cache = None,
    device: options.Device = None,
    dtype: options.DtypeOption = options.Dtype.FLOAT32,
    batch_size: options.BatchSize = None,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Find the training examples that made a model predict what it did.

    For each query it lists the examples that helped (pushed the model towards the label) and those that harmed, over
    the whole training set. Without a label, the model's own prediction is explained.
    """
    _check_queries(query, query_text, wrong)
    _check_free(out)
    classifier = load_model(
        model,
        device=device,
        dtype=dtype,
        trainable=trainable,
        freeze_layers=freeze_layers,
        max_length=max_length,
        trust_remote_code=trust_remote_code,
    )
    columns = {"text": text, "text_pair": text_pair, "label": label}
    table = load_table(train, "train", slice=slice, split=split, drop_unlabelled=drop_unlabelled, **columns)
    asked = _queries(query, query_text, split=query_split, **columns)
    with Bars(quiet=as_json) as bars:
        train_examples = as_examples(classifier, table, "train")
        asked, queries = _chosen(classifier, asked, wrong=wrong, limit=limit)
        explainer = fastif.Explainer(
            classifier,
            train_examples,
            solver=Auto(seed=seed),
            damping="auto" if damping is None else damping,
            batch_size=batch_size or 64,
            progress=bars,
            prefix_cache=PrefixCache(
                directory=cache, storage="bfloat16" if dtype is options.Dtype.BFLOAT16 else "model"
            ),
        )
        result, scores = explain_queries(explainer, queries, asked, table, top=top)
    if out is not None:
        _write(out, result, scores)
    if as_json:
        print_json(result)
    else:
        draw_explanation(result, OUT)
        note(f"Written to {out}: explanation.json, and all scores as scores.safetensors." if out else "")


def _check_queries(query: str | None, query_text: list[str] | None, wrong: bool) -> None:
    if (query is None) == (not query_text):
        raise ConfigurationError("give what to explain: --query FILE, or --query-text TEXT (and not both).")
    if wrong and query is None:
        raise ConfigurationError("--wrong needs labels, which texts of --query-text do not have: use --query FILE.")


def _queries(query: str | None, query_text: list[str] | None, **columns: Any) -> TextTable:
    if query is not None:
        return load_table(query, "queries", require_label=False, **columns)
    return table_of({"text": query_text}, text="text", require_label=False, source_name="queries")


def _chosen(model: TextClassifier, table: TextTable, *, wrong: bool, limit: int) -> tuple[TextTable, fastif.Examples]:
    """Return the rows to explain, and them as examples."""
    examples = as_examples(model, table, "queries")
    rows = list(range(len(table)))
    if wrong:
        if examples.targets_are_predictions or model.problem != "single-label":
            raise ConfigurationError("--wrong needs one label for each query; these have none, or several.")
        misses = model.predict(examples) != examples.targets
        rows = misses.nonzero().flatten().tolist()
        note(f"  {len(table) - len(rows):,} of {len(table):,} are predicted right ({1 - len(rows) / len(table):.1%}).")
        if not rows:
            raise StoredFileError("every query is predicted right: there is no wrong prediction to explain.")
    if len(rows) > limit:
        note(f"  Explaining the first {limit} of {len(rows):,}{' wrong ones' if wrong else ''}; --limit sets how many.")
    asked = table.take(rows[:limit])
    return asked, model.from_table(asked, source="queries")


def _check_free(out: Path | None) -> None:
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise StoredFileError(f"{out} is there already, and nothing is overwritten. Choose another directory.")


def _write(out: Path, result: dict[str, Any], scores: fastif.Scores) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        scores.save(out / "scores")
        with replacing(out / "explanation.json") as temporary:
            temporary.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise StoredFileError(f"the result could not be written to {out}: {error}") from error
