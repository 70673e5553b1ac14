"""`fastif simulate`: does a step on influential examples tell another model what this one will say?"""

from enum import StrEnum
from typing import Annotated, Any

import typer

from fastif.apps.simulatability import HIGHEST, LOWEST, POINTS, RATES, Simulation, log_rates
from fastif.apps.simulated import Simulated
from fastif.cli import experiments, options, pictures
from fastif.cli.console import OUT, Bars, note, print_json
from fastif.cli.draw_experiments import draw_simulation_table
from fastif.cli.experiments import Asked, Workplace
from fastif.cli.opened import open_run

EPILOG = "Example: fastif simulate runs/why -o runs/simulated"


class Labels(StrEnum):
    """The labels of the examples that a step is taken on."""

    TRUE = "true"
    PREDICTED = "predicted"


def simulate(
    run: experiments.Run,
    points: Annotated[int, typer.Option("--points", min=1, help="Examples of each kind; a step is on one.")] = POINTS,
    rates: Annotated[int, typer.Option("--rates", min=2, help="Learning rates to try.")] = RATES,
    lowest: Annotated[float, typer.Option("--lowest", help="The lowest of them.")] = LOWEST,
    highest: Annotated[float, typer.Option("--highest", help="The highest of them.")] = HIGHEST,
    labels: Annotated[
        Labels,
        typer.Option("--labels", help="Of the examples that steps are on: their own, or the model's predictions."),
    ] = Labels.TRUE,
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
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            min=0,
            max=options.MOST_SEED,
            help="Of the simulator; unless given, one more than the model's own.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Train a simulator of the model, take one step on influential or random examples, and see if it imitates better.

    The simulator learns what the model predicts for the training texts. If a step on the examples that influence names
    brings it closer to what the model says of a query, they explain that prediction.
    """
    arguments = {**locals(), "labels": str(labels)}
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
            note(f"Training a simulator on what the model says of {len(opened.train):,} examples, {how.words}.")
            simulation = Simulation(
                opened.model,
                opened.train,
                queries=asked.examples,
                recipe=how.recipe,
                start=how.start,
                labels=labels.value,
                prefix_cache=place.cache,
                precision=experiments.precision_of(opened),
                progress=bars,
                keep=place.keep,
            )
            done = simulation.run(
                asked.scores,
                points=points,
                rates=log_rates(lowest, highest, rates),
                seed=how.seed + 1 if seed is None else seed,
            )
            found = done.as_json()
            found["queries"] = [{**one, **told} for one, told in zip(asked.described, found["queries"], strict=True)]
            head = {"run": str(opened.path), "model": opened.model.name, "trained": how.words, "labels": str(labels)}
            return {**head, **found}, {"losses": done.losses, "before": done.before}, _pictures(done, asked)

        result = experiments.perform(opened, "simulate", arguments, out, work)
    if as_json:
        print_json(result)
    else:
        draw_simulation_table(result, OUT)
    experiments.tell_where(out)


def _pictures(done: Simulated, asked: Asked) -> dict[str, Any]:
    def draw() -> Any:
        return pictures.plots("simulatability").draw_simulatability(done, titles=asked.titles)

    return {"simulatability": draw}
