"""What the commands that go on from a finished run share: its queries, how to train again, and where results go."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

import fastif
from fastif.apps.relabelled import Relabelled
from fastif.apps.retraining import Start
from fastif.apps.training_recipe import TrainingRecipe
from fastif.cli import pictures
from fastif.cli.console import note
from fastif.cli.opened import OpenedRun
from fastif.data import Examples
from fastif.errors import ConfigurationError
from fastif.files import sha256
from fastif.keeping import Keep, Tensors, nothing_kept
from fastif.precision import Precision
from fastif.prefix import PrefixCache
from fastif.store import DESCRIPTION, PARTS, RunStore

RESULT = "result.json"
TRAINING = "Training"
NOT_IN_REQUEST = ("run", "out", "trust_remote_code", "as_json")  # what changes nothing of the work

Run = Annotated[Path, typer.Argument(help="Directory of a finished run of fastif explain.")]
Out = Annotated[
    Path | None,
    typer.Option("-o", "--out", help="Directory for the result and its pictures; work that was killed goes on there."),
]
Queries = Annotated[
    int | None,
    typer.Option("--queries", min=1, help="Take so many of the run's queries, the first ones; all unless given."),
]
Base = Annotated[
    str | None,
    typer.Option(
        "--base",
        help="What trainings begin from: an encoder, which gets a new head. Unless given, that of fastif train.",
        rich_help_panel=TRAINING,
    ),
]
Warm = Annotated[
    bool,
    typer.Option("--warm", help="Begin from the weights of the model itself instead.", rich_help_panel=TRAINING),
]
Epochs = Annotated[
    int | None,
    typer.Option("--epochs", min=1, help="As the model was trained, unless given.", rich_help_panel=TRAINING),
]
TrainingBatch = Annotated[
    int | None, typer.Option("--training-batch", min=1, help="Texts of one step.", rich_help_panel=TRAINING)
]
LearningRate = Annotated[
    float | None, typer.Option("--learning-rate", help="The highest of the schedule.", rich_help_panel=TRAINING)
]
WeightDecay = Annotated[float | None, typer.Option("--weight-decay", min=0, help="Of AdamW.", rich_help_panel=TRAINING)]


@dataclass(frozen=True)
class Asked:
    """The queries of a run, as examples of the model with their labels, and their scores."""

    examples: Examples
    scores: fastif.Scores
    told: list[dict[str, Any]]

    @property
    def titles(self) -> list[str]:
        """What a person reads of each."""
        return [" ⏐ ".join(filter(None, (one["text"], one["text_pair"]))) for one in self.told]

    @property
    def described(self) -> list[dict[str, Any]]:
        """What a result says of each."""
        return [{name: one[name] for name in ("text", "text_pair", "label", "predicted", "right")} for one in self.told]


@dataclass(frozen=True)
class HowToTrain:
    """A recipe and a start, and in words where they are from."""

    recipe: TrainingRecipe
    start: Start | None
    seed: int
    words: str


@dataclass(frozen=True)
class Workplace:
    """Where a command keeps its pieces and what the frozen layers give."""

    keep: Keep
    cache: PrefixCache


def asked_queries(run: OpenedRun, count: int | None = None) -> Asked:
    """Return the first queries of a run, all unless a number is given."""
    model, told = run.model, run.explanation["queries"][:count]
    if model.problem != "single-label":
        raise ConfigurationError(
            f"the model of {run.path} is {model.problem}, and this command is made for classifiers with one label each."
        )
    pairs = None if told[0]["text_pair"] is None else [one["text_pair"] for one in told]
    examples: Examples = model.examples([one["text"] for one in told], pairs=pairs, source="queries")
    if all(one["label"] is not None for one in told):
        numbers = {name: number for number, name in model.label_names.items()}
        examples = Relabelled(examples, torch.tensor([numbers[one["label"]] for one in told]))
        examples.targets_are_predictions = False
    scores = run.scores
    some = fastif.Scores(scores.values[: len(told)], scores.train_ids[: len(told)], scores.provenance)
    return Asked(examples, some, told)


def how_to_train(run: OpenedRun, *, base: str | None, warm: bool, **changes: Any) -> HowToTrain:
    """Return how the model of a run was trained, but for what is given here.

    A record that `fastif train` left says it; without one, the base has to be named, or the model's own weights taken.
    """
    from fastif.integrations.huggingface.start import recorded_training, start_from

    if base is not None and warm:
        raise ConfigurationError("--base and --warm both say what a training begins from: give one of them.")
    given = {name: value for name, value in changes.items() if value is not None}
    model = run.model
    recorded = recorded_training(run.arguments["model"])
    if recorded is None and base is None and not warm:
        raise ConfigurationError(
            f"nothing says how {run.arguments['model']} was trained: it has no fastif_training.json, which fastif "
            "train writes. Name the encoder that it was made from with --base, or go on from its own weights with "
            "--warm; and say how with --epochs, --training-batch, --learning-rate and --weight-decay."
        )
    recipe = TrainingRecipe() if recorded is None else recorded.recipe
    if "epochs" in given:
        recipe = replace(recipe, stop_after=None)
    recipe = replace(recipe, **given)
    start: Start | None = None
    origin = "the weights of the model itself"
    if not warm:
        named = base or (recorded.base if recorded else "")
        expected = recorded.base_sha256 if recorded is not None and base is None else None
        start, origin = start_from(model, named, expected=expected), f"{named} with a new head"
    seed = 0 if recorded is None else recorded.seed
    return HowToTrain(recipe, start, seed, f"from {origin}; {recipe.in_words()}")


def numbers(words: str | None, option: str) -> tuple[int, ...] | None:
    """Return whole numbers that were written with commas.

    >>> numbers("1,5, 25", "--remove")
    (1, 5, 25)
    """
    if words is None:
        return None
    try:
        return tuple(int(word) for word in words.split(","))
    except ValueError as error:
        raise ConfigurationError(f"{option} takes whole numbers with commas between them, not {words!r}.") from error


Work = Callable[[Workplace], tuple[dict[str, Any], Tensors, dict[str, Callable[[], Any]]]]
"""Does the work, and returns what is told of it, tensors to keep, and pictures by name, each as a function."""


def perform(run: OpenedRun, command: str, arguments: dict[str, Any], out: Path | None, work: Work) -> dict[str, Any]:
    """Do the work of a command, in a directory where there is one, and return what is told of it."""
    storage = run.prefix_cache.storage
    kinds = pictures.read_formats(arguments["formats"])
    if out is None:
        return work(Workplace(nothing_kept, run.prefix_cache))[0]
    if out.resolve() == run.path.resolve():
        raise ConfigurationError(f"{out} is the run itself; choose another directory for the result.")
    plain = {name: value for name, value in sorted(arguments.items()) if name not in NOT_IN_REQUEST}
    request = {"command": command, "arguments": plain, "read": {"run": sha256(run.path / DESCRIPTION)}}
    with RunStore.begin(out, request) as store:
        if store.is_complete:
            note(f"{out} is a finished run of the same request; this is what it found.")
            found: dict[str, Any] = store.json(RESULT)
            return found
        cache = PrefixCache(directory=run.prefix_cache.directory or store.path / PARTS, storage=storage)
        drawn = pictures.are_possible()  # says now if not, and not after the work
        result, tensors, figures = work(Workplace(store.piece, cache))
        for name, draw in figures.items() if drawn else ():
            for file in pictures.write(draw(), out / name, kinds):
                store.note(Path(file).name)
        if tensors:
            store.add_tensors("result.safetensors", tensors)
        store.add_json(RESULT, result)
        store.finish()
    return result


def tell_where(out: Path | None) -> None:
    """Say where the result is."""
    if out is not None:
        files = sorted(file.name for kind in pictures.FORMATS for file in out.glob(f"*.{kind}"))
        note(f"Written to {out}: {', '.join([RESULT, *files])}.")


def precision_of(run: OpenedRun) -> Precision:
    """Return the precision that a run was made in; models are trained in no less than tf32."""
    return "float32" if run.arguments["dtype"] in ("float32", "float64") else "auto"
