"""`fastif doctor`: will this model work, what will it take, and what to change."""

import time
from typing import TYPE_CHECKING, Annotated, Any

import torch
import typer

from fastif.apps.checkup import Estimate, Finding, Level, advise, estimate, examine
from fastif.apps.checkup.machine import free_memory, give_back, has_threshold, held_memory, peak_memory
from fastif.cli import options
from fastif.cli.console import OUT, print_json
from fastif.cli.draw_doctor import draw_checkup
from fastif.cli.explain import BATCH_SIZE
from fastif.cli.loading import check_no_run, load_table, only_trained_on, pick_device
from fastif.errors import ConfigurationError, FastifError
from fastif.integrations.tables import LabelMap, TextTable
from fastif.prefix import PrefixCache

if TYPE_CHECKING:
    from fastif.integrations.huggingface import TextClassifier, TextExamples

MADE_UP = (
    "a fine day",
    "nothing here is what it was made out to be, and that is a pity",
    "it is what it is",
    "the first part was long; the second, which nobody had asked for, was longer still",
    "yes",
    "we would go there again",
)
MANY_UNKNOWN = 0.05  # of all tokens


def doctor(
    model: Annotated[str, typer.Argument(help="Directory of a fine-tuned classifier, or its name on the hub.")],
    train: Annotated[
        str | None, typer.Option("--train", help="What it was trained on; with it, time and memory are estimated.")
    ] = None,
    query_count: Annotated[int, typer.Option("--query-count", min=1, help="How many queries to plan for.")] = 1,
    text: options.Text = None,
    text_pair: options.TextPair = None,
    label: options.Label = None,
    slice: options.Slice = None,
    split: options.Split = None,
    drop_unlabelled: options.DropUnlabelled = False,
    trainable: options.Trainable = None,
    freeze_layers: options.FreezeLayers = None,
    max_length: options.MaxLength = None,
    trust_remote_code: options.TrustRemoteCode = False,
    cache: options.Cache = None,
    device: options.Device = None,
    dtype: options.DtypeOption = options.Dtype.AUTO,
    batch_size: options.BatchSize = None,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Find out whether a model can be explained, what time and memory that takes, and what to change.

    Everything that an explanation needs is tried on made-up texts. With --train, the time and the memory of each stage
    are estimated from a few of its rows, also for influence through all parameters. The status is 1 if it cannot work.
    """
    torch.manual_seed(seed)
    check_no_run(model)
    choices = {"trainable": trainable, "freeze_layers": freeze_layers, "max_length": max_length}
    result: dict[str, Any] = {"model": model, "usable": False, "findings": [], "data": None, "estimates": []}
    start = time.perf_counter()
    classifier, findings = _loaded(model, device, dtype, {**choices, "trust_remote_code": trust_remote_code})
    result["load"] = {"seconds": time.perf_counter() - start, "peak_bytes": peak_memory()}
    columns = {"text": text, "text_pair": text_pair, "label": label, "slice": slice, "split": split}
    plan: dict[str, Any] = {
        "queries": query_count,
        "batch_size": batch_size or BATCH_SIZE.get(pick_device(device).type, 512),
        "cache": PrefixCache(directory=cache, storage=options.storage(dtype)),
    }
    if classifier is not None:
        examples = None
        if train is not None:
            table = only_trained_on(model, load_table(train, "train", drop_unlabelled=drop_unlabelled, **columns))
            examples, result["data"] = _read(classifier, table, findings)
        held = held_memory()
        findings += examine(classifier, _made_up(classifier))
        if examples is not None and _usable(findings):
            result["estimates"] = _estimates(classifier, examples, held, plan)
    result["findings"] = [{**vars(finding), "level": str(finding.level)} for finding in findings]
    result["usable"] = _usable(findings)
    if as_json:
        print_json(result)
    else:
        draw_checkup(result, OUT)
    if not result["usable"]:
        raise typer.Exit(1)


def _loaded(
    name: str, device: str | None, dtype: options.Dtype, choices: dict[str, Any]
) -> "tuple[TextClassifier | None, list[Finding]]":
    """Load the model and say what it is; None where it cannot be loaded."""
    from fastif.integrations.huggingface import TextClassifier

    wanted = torch.float64 if dtype is options.Dtype.FLOAT64 else None
    where = pick_device(device)
    try:
        model = TextClassifier.from_pretrained(name, device=where, dtype=wanted, **choices)
    except ConfigurationError:
        raise
    except FastifError as error:
        return None, [Finding(Level.PROBLEM, "load", str(error))]
    return model, [
        Finding(Level.OK, "load", f"{type(model.module).__name__} on {where}, {free_memory(where) / 1e9:.1f} GB free"),
        _labels(model),
        Finding(Level.OK, "parameters", f"influence through {model.parameters_in_words()}"),
        Finding(Level.OK, "longest text", f"{model.max_length:,} tokens; longer ones are cut"),
    ]


def _labels(model: "TextClassifier") -> Finding:
    if model.problem == "regression":
        return Finding(Level.OK, "labels", "a number (regression)")
    try:
        LabelMap(model.label_names).check()
    except FastifError as error:
        return Finding(Level.PROBLEM, "labels", str(error))
    names = list(model.label_names.values())
    said = f"{model.problem}: {', '.join(names[:20])}"
    if model.label_names and all(name.startswith("LABEL_") for name in names):
        change = "Set config.id2label and label2id and save the model again, or give labels as numbers."
        return Finding(Level.WARNING, "labels", f"{said}, which are no names", change)
    return Finding(Level.OK, "labels", said)


def _read(
    model: "TextClassifier", table: TextTable, findings: list[Finding]
) -> "tuple[TextExamples | None, dict[str, Any] | None]":
    """Tokenise the data, and tell what is worth knowing about it."""
    start = time.perf_counter()
    try:
        examples = model.from_table(table, source="train")
    except FastifError as error:
        findings.append(Finding(Level.PROBLEM, "training data", str(error)))
        return None, None
    seconds = time.perf_counter() - start
    assert examples.lengths is not None
    lengths = examples.lengths.double()
    data = {
        "rows": len(table),
        "tokens_mean": float(lengths.mean()),
        "tokens_95_percent": int(lengths.quantile(0.95)),
        "tokens_longest": int(lengths.max()),
        "cut": examples.truncated,
        "conflicts": len(table.conflicts()),
        "duplicates": table.duplicates(),
        "unknown_tokens": _unknown(model, examples),
        "tokenise_seconds": seconds,
    }
    findings += _of_data(data, model.max_length)
    return examples, data


def _of_data(data: dict[str, Any], longest: int) -> list[Finding]:
    found = [
        Finding(
            Level.OK,
            "training data",
            f"{data['rows']:,} rows of {data['tokens_mean']:.0f} tokens in the mean, 95 % of them at most "
            f"{data['tokens_95_percent']:,}, the longest {data['tokens_longest']:,}",
        )
    ]
    if data["cut"]:
        said = f"{data['cut']:,} of {data['rows']:,} are longer than {longest:,} tokens and are cut there"
        found.append(Finding(Level.WARNING, "long texts", said, "Fine if they were cut in training too."))
    if data["conflicts"]:
        said = f"{data['conflicts']:,} texts stand there with different labels"
        found.append(Finding(Level.WARNING, "conflicts", said, "At most one label of each can be right: look at them."))
    if data["unknown_tokens"] > MANY_UNKNOWN:
        said = f"{data['unknown_tokens']:.0%} of the tokens are unknown to the tokenizer"
        change = "Is it the tokenizer that the model was trained with, and the language?"
        found.append(Finding(Level.WARNING, "tokenizer", said, change))
    else:
        found.append(Finding(Level.OK, "tokenizer", f"knows {1 - data['unknown_tokens']:.1%} of the tokens"))
    return found


def _unknown(model: "TextClassifier", examples: "TextExamples") -> float:
    """Return the share of unknown tokens among those of the first rows."""
    unknown = getattr(model.tokenizer, "unk_token_id", None)
    inputs = examples.batch(range(min(len(examples), 1000))).inputs
    assert isinstance(inputs, dict)
    tokens, lengths = inputs["input_ids"], examples.lengths
    if unknown is None or lengths is None:
        return 0.0
    real = torch.arange(tokens.shape[1]) < lengths[: len(tokens), None]  # the rest is padding
    return float(((tokens == unknown) & real).sum() / real.sum())


def _made_up(model: "TextClassifier") -> "TextExamples":
    return model.examples(MADE_UP, source="made-up texts")  # with its own predictions as labels


def _estimates(
    model: "TextClassifier", examples: "TextExamples", held: int, plan: dict[str, Any]
) -> list[dict[str, Any]]:
    """Estimate for the choice of parameters, and for all of them."""
    from fastif.integrations.huggingface import TextClassifier

    give_back()
    chosen = estimate(model, examples, held=held, **plan)
    made: list[tuple[str, Estimate]] = [("as chosen", chosen)]
    every = sum(tensor.numel() for tensor in model.module.parameters())
    if chosen.parameters < every:
        whole = TextClassifier(model.module, model.tokenizer, trainable="all", max_length=model.max_length)
        give_back()
        made.append(("--trainable all", estimate(whole, examples, held=held, **plan)))
    allocator = has_threshold(model.device)
    return [{"choice": name, **one.as_json(), "advice": advise(one, allocator=allocator)} for name, one in made]


def _usable(findings: list[Finding]) -> bool:
    return all(finding.level is not Level.PROBLEM for finding in findings)
