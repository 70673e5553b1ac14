"""`fastif tradeoff`: time and error of the paper's inverse-Hessian-vector product over J, B and T."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from fastif.apps.traded import Traded
from fastif.apps.tradeoff import Grid, Tradeoff
from fastif.cli import experiments, options, pictures
from fastif.cli.console import OUT, Bars, note, print_json
from fastif.cli.draw_experiments import draw_tradeoff_table
from fastif.cli.experiments import Workplace
from fastif.cli.opened import open_run

EPILOG = "Example: fastif tradeoff runs/why --depth 100,300,1000 --batch 1,8,64 --repeats 1,4 -o runs/tradeoff"


class Curvature(StrEnum):
    """The matrix that is inverted."""

    HESSIAN = "hessian"
    GAUSS_NEWTON = "gauss-newton"


def tradeoff(
    run: experiments.Run,
    depth: Annotated[str, typer.Option("--depth", help="J: steps, with commas.")] = "700,800,900,1000,1100,1200,1300",
    batch: Annotated[str, typer.Option("--batch", help="B: examples of a step, with commas.")] = "1,2,4,8,16,32,64,128",
    repeats: Annotated[str, typer.Option("--repeats", help="T: runs that are averaged, with commas.")] = "1,4",
    damp: Annotated[float, typer.Option("--damp", help="Taken off in each step; damp x scale is the damping.")] = 5e-3,
    scale: Annotated[float, typer.Option("--scale", help="What the curvature is divided by.")] = 1e4,
    curvature: Annotated[
        Curvature, typer.Option("--curvature", help="The paper's is the Hessian.")
    ] = Curvature.HESSIAN,
    queries: experiments.Queries = None,
    trust_remote_code: options.TrustRemoteCode = False,
    out: experiments.Out = None,
    formats: pictures.Formats = "png",
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Measure what the paper's solver costs and how far it is off, over its depth J, batch size B and repeats T.

    Errors are norms beside the norm of the reference: the dearest setting, as in the paper, and the converged solution
    at the same damping. Time is that of one query alone.
    """
    arguments = {**locals(), "curvature": str(curvature)}
    opened = open_run(run, trust_remote_code=trust_remote_code)
    asked = experiments.asked_queries(opened, queries)
    grid = Grid(
        depths=experiments.numbers(depth, "--depth") or (),
        batch_sizes=experiments.numbers(batch, "--batch") or (),
        repeats=experiments.numbers(repeats, "--repeats") or (),
        damp=damp,
        scale=scale,
        seed=seed,
    )
    with Bars(quiet=as_json) as bars:

        def work(place: Workplace) -> Any:
            steps = len(grid.batch_sizes) * grid.depths[-1] * (1 + len(grid.repeats))
            note(f"Taking {steps:,} steps of the paper's solver, damping {grid.damping:g}.")
            it = Tradeoff(
                opened.model,
                opened.train,
                queries=asked.examples,
                curvature=curvature.value,
                prefix_cache=place.cache,
                precision=experiments.precision_of(opened),
                progress=bars,
                keep=place.keep,
            )
            done = it.run(grid)
            head = {
                "run": str(opened.path),
                "model": opened.model.name,
                "curvature": str(curvature),
                "device": str(opened.model.device),
            }
            tensors = {name: getattr(done, name) for name in ("to_expensive", "to_converged", "seconds")}
            return {**head, **done.as_json()}, tensors, _pictures(done)

        result = experiments.perform(opened, "tradeoff", arguments, out, work)
    if as_json:
        print_json(result)
    else:
        draw_tradeoff_table(result, OUT)
    experiments.tell_where(out)


def _pictures(done: Traded) -> dict[str, Any]:
    def draw() -> Any:
        return pictures.plots("tradeoff").draw_tradeoff(done)

    return {"tradeoff": draw}
