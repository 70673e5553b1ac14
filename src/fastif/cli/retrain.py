"""`fastif retrain`: leave influential examples out, train again, and see what that does to the queries."""

from typing import Annotated, Any

import typer

from fastif.apps.removals import COUNTS, at_random, influential, most_removable, smallest_label
from fastif.apps.retrained import Retrained
from fastif.apps.retraining import Retraining
from fastif.cli import experiments, options, pictures
from fastif.cli.console import OUT, Bars, note, print_json
from fastif.cli.draw_experiments import draw_retraining_table
from fastif.cli.experiments import Asked, HowToTrain, Workplace
from fastif.cli.opened import OpenedRun, open_run
from fastif.errors import DataError
from fastif.progress import Progress

EPILOG = "Example: fastif retrain runs/why --remove 1,5,25 -o runs/without"


def retrain(
    run: experiments.Run,
    remove: Annotated[
        str | None,
        typer.Option(
            "--remove",
            help="How many examples to remove, with commas. Unless given: 1,5,25,50,100 as far as there are.",
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, help="Trainings of each kind, each with a seed of its own.")
    ] = 3,
    draws: Annotated[
        int, typer.Option("--draws", min=1, help="Random removals of each label and number, to see the noise.")
    ] = 3,
    queries: experiments.Queries = None,
    trust_remote_code: options.TrustRemoteCode = False,
    base: experiments.Base = None,
    warm: experiments.Warm = False,
    epochs: experiments.Epochs = None,
    training_batch: experiments.TrainingBatch = None,
    learning_rate: experiments.LearningRate = None,
    weight_decay: experiments.WeightDecay = None,
    out: experiments.Out = None,
    formats: pictures.Formats = "png",
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Train again without the most helpful, the most harmful and random examples, and compare the queries' loss.

    This is the truth that influence estimates. Trainings are compared with one on everything of the same seed, and
    random removals show how much of a change is noise. Many models are trained at once on the states of frozen layers.
    """
    arguments = dict(locals())
    opened = open_run(run, trust_remote_code=trust_remote_code)
    asked = experiments.asked_queries(opened, queries)
    how = experiments.how_to_train(
        opened,
        base=base,
        warm=warm,
        epochs=epochs,
        batch_size=training_batch,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
    )
    with Bars(quiet=as_json) as bars:

        def work(place: Workplace) -> Any:
            counts = _counts(opened, asked, experiments.numbers(remove, "--remove"))
            done = _retrained(opened, asked, how, place, bars, counts=counts, seeds=seeds, draws=draws, seed=seed)
            return _told(opened, asked, how, done), {"losses": done.losses}, _pictures(done)

        result = experiments.perform(opened, "retrain", arguments, out, work)
    if as_json:
        print_json(result)
    else:
        draw_retraining_table(result, OUT)
    experiments.tell_where(out)


def _counts(run: OpenedRun, asked: Asked, wanted: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return how many examples to remove: what was asked for, or all of the usual numbers that there are."""
    if wanted is not None:
        return wanted
    most = min(most_removable(asked.scores), smallest_label(run.train.targets) - 1)
    possible = tuple(count for count in COUNTS if count <= most)
    if not possible:
        raise DataError("a query has no helpful or no harmful example, so that there is nothing to remove for it.")
    if len(possible) < len(COUNTS):
        note(f"  Removing {', '.join(map(str, possible))}: more than {most} there are not for every query and label.")
    return possible


def _retrained(
    run: OpenedRun, asked: Asked, how: HowToTrain, place: Workplace, progress: Progress, **plan: Any
) -> Retrained:
    total = len(run.train)
    removals = influential(asked.scores, counts=plan["counts"], examples=total)
    removals += at_random(
        run.train.targets,
        counts=plan["counts"],
        draws=plan["draws"],
        seed=plan["seed"],
        label_names=run.model.label_names,
    )
    retraining = Retraining(
        run.model,
        run.train,
        queries=asked.examples,
        recipe=how.recipe,
        start=how.start,
        prefix_cache=place.cache,
        precision=experiments.precision_of(run),
        progress=progress,
        keep=place.keep,
    )
    distinct = 1 + len({frozenset(one.ids) for one in removals})
    note(f"Retraining {distinct * plan['seeds']:,} models on {total:,} examples, {how.words}.")
    return retraining.run(removals, seeds=[how.seed + number for number in range(plan["seeds"])])


def _told(run: OpenedRun, asked: Asked, how: HowToTrain, done: Retrained) -> dict[str, Any]:
    found = done.as_json()
    found["queries"] = [{**one, **told} for one, told in zip(asked.described, found["queries"], strict=True)]
    return {"run": str(run.path), "model": run.model.name, "trained": how.words, **found}


def _pictures(done: Retrained) -> dict[str, Any]:
    def draw() -> Any:
        return pictures.plots("retraining").draw_retraining(done)

    return {"retraining": draw}
