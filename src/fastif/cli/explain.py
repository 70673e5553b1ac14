"""`fastif explain`: the training examples behind some predictions."""

import inspect
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import typer

import fastif
from fastif.arguments import check_listing
from fastif.cli import candidates as scored
from fastif.cli import options, several
from fastif.cli import solver as solver_of
from fastif.cli.console import OUT, Bars, note, print_json
from fastif.cli.draw import draw_explanation
from fastif.cli.evidence import explain_queries
from fastif.cli.loading import as_examples, load_model, load_table, only_trained_on, plain_arguments
from fastif.distributed import Team
from fastif.distributed.plan import told
from fastif.errors import ConfigurationError, StoredFileError
from fastif.integrations.tables import TextTable, table_of
from fastif.keeping import Keep, nothing_kept
from fastif.prefix import PrefixCache
from fastif.progress import Progress
from fastif.store import DESCRIPTION, RunStore

if TYPE_CHECKING:
    from fastif.integrations.huggingface import TextClassifier

BATCH_SIZE = {"cpu": 64}  # on a GPU as many as its memory holds
NOT_RECORDED = ("out", "as_json", "nproc")  # what the result does not depend on


class Held(StrEnum):
    """Which scores of a query are held."""

    ALL = "all"
    STRONGEST = "strongest"


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
        Path | None, typer.Option("-o", "--out", help="Run directory: all scores, and a run that was killed goes on.")
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="Examples to show, of each kind.")] = 10,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Queries to explain, the first ones.")] = 5,
    per_slice: Annotated[
        int | None,
        typer.Option("--per-slice", min=1, help="Instead: queries of each of their slices, the first ones."),
    ] = None,
    wrong: Annotated[bool, typer.Option("--wrong", help="Explain wrong predictions alone; needs labels.")] = False,
    damping: options.Damping = None,
    text: options.Text = None,
    text_pair: options.TextPair = None,
    label: options.Label = None,
    slice: options.Slice = None,
    query_slice: options.QuerySlice = None,
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
    dtype: options.DtypeOption = options.Dtype.AUTO,
    memory_budget: options.MemoryBudget = None,
    batch_size: options.BatchSize = None,
    seed: options.Seed = 0,
    candidates: scored.Option = scored.AUTO,
    solver: solver_of.Option = solver_of.Name.AUTO,
    scores: Annotated[
        Held,
        typer.Option(
            "--scores",
            help="all, or strongest: score all, and hold only those that are listed and those close to them; for "
            "training sets whose scores do not fit into memory.",
            rich_help_panel=options.RUN,
        ),
    ] = Held.ALL,
    nproc: several.Nproc = None,
    as_json: options.Json = False,
) -> None:
    """Find the training examples that made a model predict what it did.

    For each query it lists the examples that helped (pushed the model towards the label) and those that harmed, over
    the whole training set, or on a CPU where that takes long over what may matter of it. Without a label, the model's
    own prediction is explained.
    """
    arguments = {name: value for name, value in locals().items() if name not in NOT_RECORDED}
    if several.start_over(nproc, device):
        return
    with Bars(quiet=as_json) as bars:
        result = perform(arguments, out, bars)
    if result is None:  # of a process that helped
        return
    if as_json:
        print_json(result)
    else:
        draw_explanation(result, OUT)
    if out is not None:
        held = "all training examples" if scores is Held.ALL else "the strongest"
        note(f"Written to {out}: explanation.json, and the scores of {held} as scores.safetensors.")


def recorded(store: RunStore) -> dict[str, Any]:
    """Return the arguments that a run was made with, by the names that they have in Python."""
    found = store.arguments
    missing = inspect.signature(explain).parameters.keys() - {*found, *NOT_RECORDED}
    if missing:
        raise StoredFileError(
            f"{store.path / DESCRIPTION} does not say with which {', '.join(sorted(missing))} the run was made, so "
            "that it cannot be gone on from: it was edited, or another version of fastif made it. Run fastif explain "
            "again, into a new directory."
        )
    return found


@dataclass(frozen=True)
class Named:
    """What a run is to say of how files were named: the arguments as they were given, and where names begin."""

    arguments: dict[str, Any]
    begin: Path | None


def perform(
    arguments: dict[str, Any], out: Path | None, progress: Progress, *, named: Named | None = None
) -> dict[str, Any] | None:
    """Do what the arguments of the command ask for, in a run directory where there is one.

    As one of several processes, only the first returns a result. `named` is for a replay, whose names are those of the
    first run; otherwise they are what the arguments say, from the present directory.
    """
    named = named or Named(plain_arguments(arguments), Path.cwd())
    with several.team_for(arguments["device"]) as (team, device):
        return _performed(arguments, out, progress, team, str(device), named)


def _performed(
    arguments: dict[str, Any], out: Path | None, progress: Progress, team: Team | None, device: str, named: Named
) -> dict[str, Any] | None:
    it = SimpleNamespace(**arguments)
    _check_queries(it)
    settings = {**_settings(it), "progress": progress, "team": team}
    model = load_model(
        it.model,
        device=device,
        dtype=it.dtype,
        trainable=it.trainable,
        freeze_layers=it.freeze_layers,
        max_length=it.max_length,
        trust_remote_code=it.trust_remote_code,
    )
    columns = {"text": it.text, "text_pair": it.text_pair, "label": it.label}
    table = load_table(it.train, "train", slice=it.slice, split=it.split, drop_unlabelled=it.drop_unlabelled, **columns)
    table = only_trained_on(it.model, table)
    if team is not None and not team.leads:
        helper = _explainer(model, as_examples(model, table, "train"), cache=_cache(it, None), settings=settings)
        with helper.led():
            return None
    asked = _queries(it, **columns)
    _check_choice(it, model, asked)

    def work(keep: Keep, states: Path | None) -> tuple[dict[str, Any], fastif.Scores]:
        rows, queries = _chosen(model, asked, it)
        train = as_examples(model, table, "train")
        candidates = scored.chosen(it.candidates, model, train, len(queries))
        here = {**settings, "candidates": candidates, "keep": keep}
        ready = _explainer(model, train, cache=_cache(it, states), settings=here)
        ends = it.top if it.scores == "strongest" else None
        for line in () if team is None else told(team, model, ready.train, len(queries), strongest=ends):
            note(line)
        with ready.led():
            result, scores = explain_queries(ready, queries, rows, table, top=it.top, scores=it.scores)
        return {**result, "query_slices": _slices(asked, rows)}, scores

    if out is None:
        return work(nothing_kept, None)[0]
    read = {"model": model.weights_sha256(), "train": table.sha256, "queries": asked.sha256}
    request = {"command": "explain", "arguments": named.arguments, "read": read}
    return _into_run(out, request, named.begin, table, work, team)


def _settings(it: SimpleNamespace) -> dict[str, Any]:
    """Return what the options say of the explainer: what is wrong with them is said before anything is done."""
    scored.check(it.candidates)
    check_listing(it.top, it.scores)
    return {
        **solver_of.asked(it.solver, it.damping, it.seed),
        "batch_size": it.batch_size,
        "precision": options.precision(it.dtype),
        "memory_budget": options.read_bytes(it.memory_budget),
    }


def _cache(it: SimpleNamespace, states: Path | None) -> PrefixCache:
    return PrefixCache(directory=it.cache or states, storage=options.storage(it.dtype))


def _explainer(
    model: "TextClassifier", train: fastif.Examples, *, cache: PrefixCache, settings: dict[str, Any]
) -> fastif.Explainer:
    size = settings["batch_size"] or BATCH_SIZE.get(model.device.type)
    return fastif.Explainer(model, train, prefix_cache=cache, **{**settings, "batch_size": size})


Work = Callable[[Keep, Path | None], tuple[dict[str, Any], fastif.Scores]]


def _into_run(
    out: Path, request: dict[str, Any], begin: Path | None, table: TextTable, work: Work, team: Team | None
) -> dict[str, Any]:
    """Do the work in a run directory, or what is left of it."""
    with RunStore.begin(out, request, origin=begin) as store:
        if store.is_complete:
            if team is not None:
                team.dismiss()
            note(f"{out} is a finished run of the same request; this is what it found.")
            found: dict[str, Any] = store.json("explanation.json")
            return found
        result, scores = work(store.piece, store.path / "parts")
        scores.save(out / "scores", overwrite=True)
        store.note("scores.safetensors")
        store.note("scores.json")
        store.add_rows("train.jsonl", table.rows())
        store.add_json("explanation.json", result)
        store.finish()
    return result


def _check_queries(it: SimpleNamespace) -> None:
    if (it.query is None) == (not it.query_text):
        raise ConfigurationError("give what to explain: --query FILE, or --query-text TEXT (and not both).")
    if it.wrong and it.query is None:
        raise ConfigurationError("--wrong needs labels, which texts of --query-text do not have: use --query FILE.")
    if it.query_slice and it.query is None:
        raise ConfigurationError("--query-slice names a column, which texts of --query-text do not have: use --query.")


def _check_choice(it: SimpleNamespace, model: "TextClassifier", asked: TextTable) -> None:
    """Raise if the queries to explain cannot be chosen so, before a run directory is taken for them."""
    if it.wrong and (asked.labels is None or model.problem != "single-label"):
        raise ConfigurationError("--wrong needs one label for each query; these have none, or several.")
    if it.per_slice is not None and asked.slices is None:
        raise ConfigurationError("--per-slice needs slices of the queries: name their column with --query-slice.")


def _queries(it: SimpleNamespace, **columns: Any) -> TextTable:
    if it.query is None:
        return table_of({"text": it.query_text}, text="text", require_label=False, source_name="queries")
    named = it.query_slice is not None
    return load_table(
        it.query,
        "queries",
        split=it.query_split,
        slice=(it.query_slice or None) if named else it.slice,
        require_slice=named,
        require_label=False,
        **columns,
    )


def _chosen(model: "TextClassifier", table: TextTable, it: SimpleNamespace) -> tuple[TextTable, fastif.Examples]:
    """Return the rows to explain, and them as examples."""
    examples = as_examples(model, table, "queries")
    rows = list(range(len(table)))
    if it.wrong:
        misses = model.predict(examples) != examples.targets
        rows = misses.nonzero().flatten().tolist()
        note(f"  {len(table) - len(rows):,} of {len(table):,} are predicted right ({1 - len(rows) / len(table):.1%}).")
        if not rows:
            raise StoredFileError("every query is predicted right: there is no wrong prediction to explain.")
    kept = rows[: it.limit] if it.per_slice is None else _of_each_slice(rows, table, it.per_slice)
    if len(kept) < len(rows):
        which, option = (
            (f"the first {len(kept)}", "--limit") if it.per_slice is None else (f"{len(kept)}", "--per-slice")
        )
        note(f"  Explaining {which} of {len(rows):,}{' wrong ones' if it.wrong else ''}; {option} sets how many.")
    asked = table.take(kept)
    return asked, model.from_table(asked, source="queries")


def _of_each_slice(rows: list[int], table: TextTable, count: int) -> list[int]:
    """Return the first so many rows of each slice, in their order."""
    assert table.slices is not None  # `_check_choice` saw to it
    seen: Counter[str] = Counter()
    kept = []
    for row in rows:
        seen[table.slices[row]] += 1
        if seen[table.slices[row]] <= count:
            kept.append(row)
    return kept


def _slices(table: TextTable, explained: TextTable) -> dict[str, dict[str, int]] | None:
    """Return for each slice of the queries how many there are and how many were explained, None without slices."""
    if table.slices is None or explained.slices is None:
        return None
    chosen = Counter(explained.slices)
    return {name: {"queries": count, "explained": chosen[name]} for name, count in Counter(table.slices).items()}
