"""`fastif bench scaling | index`: several processes, what follows for several GPUs, and an index of millions."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fastif.bench import index as index_bench
from fastif.bench import page as pages
from fastif.bench import scaling as bench
from fastif.bench.scaling.page import checked, predictions
from fastif.bench.scaling.predict import Machine
from fastif.bench.timing import command_line
from fastif.cli import options
from fastif.cli.bench import SIZES, Examples, Out, finish
from fastif.cli.console import OUT, note
from fastif.cli.loading import pick_device
from fastif.errors import ConfigurationError
from fastif.measuring.timing import environment

PREDICTION = "Prediction"


def scaling(
    case: Annotated[str, typer.Option("--case", help="A case for a CPU.", rich_help_panel=SIZES)] = "bert-mini",
    examples: Examples = None,
    processes: Annotated[
        str, typer.Option("--processes", help="Their numbers, of one thread each.", rich_help_panel=SIZES)
    ] = "1,2,4",
    rounds: Annotated[
        int, typer.Option("--rounds", min=1, help="Through all of them; the fastest counts.", rich_help_panel=SIZES)
    ] = 2,
    depth: Annotated[int, typer.Option("--depth", min=1, help="Steps of LiSSA.", rich_help_panel=SIZES)] = 30,
    predict: Annotated[
        bool,
        typer.Option("--predict", help="Measure nothing: print what stored figures say.", rich_help_panel=PREDICTION),
    ] = False,
    figures: Annotated[
        Path, typer.Option("--figures", help="Directory of stored figures.", rich_help_panel=PREDICTION)
    ] = Path("docs/benchmarks"),
    link: Annotated[
        float, typer.Option("--link", min=1e-3, help="GB/s of a process.", rich_help_panel=PREDICTION)
    ] = 25,
    disk: Annotated[float, typer.Option("--disk", min=1e-3, help="GB/s of a process.", rich_help_panel=PREDICTION)] = 3,
    device: Annotated[
        str, typer.Option("--device", help="cpu; cuda compares a team of one with a process alone.")
    ] = "cpu",
    seed: options.Seed = 0,
    out: Out = None,
    as_json: options.Json = False,
) -> None:
    """Stages of an explanation by 1, 2, 4 processes of one thread; with --predict, what follows for several GPUs."""
    if predict:
        _predict(figures, Machine(bandwidth=1e9 * link, disk=1e9 * disk))
        return
    kind = pick_device(device).type
    size: dict[str, Any] = {"rounds": rounds, "depth": depth, "seed": seed}
    measured = bench.run(bench.Plan(case, examples, read_processes(processes), device=kind, **size))
    where = {**environment(kind), "threads": 1}
    result: dict[str, Any] = {"bench": "scaling", "command": command_line(), "environment": where, **measured}
    table = f"{bench.table(result)}\n\n{checked(result)}" if result["link"] else bench.table(result)
    finish(result, table, out or Path("out/bench/scaling.json"), {"as_json": as_json})


def read_processes(words: str) -> tuple[int, ...]:
    """Return numbers of processes."""
    try:
        counts = tuple(int(word) for word in words.split(","))
    except ValueError:
        counts = ()
    if not counts or min(counts) < 1 or max(counts) > 64:
        raise ConfigurationError(f"--processes {words} must be numbers from 1 to 64 with commas between them: 1,2,4.")
    return counts


def _predict(figures: Path, machine: Machine) -> None:
    found = predictions([run for _, run in pages.read_runs(figures)], machine)
    if not found:
        raise ConfigurationError(
            f"{figures} lacks what a prediction rests on: a run of `fastif bench scaling`, and two of `fastif bench "
            "scan` on a GPU in float16, one of them with a --memory-budget. Measure these, or name another directory."
        )
    OUT.print("\n\n".join(found), markup=False)
    note(f"Predicted from the figures in {figures}.")


def index(
    points: Annotated[int, typer.Option("--points", min=100, help="In the index.", rich_help_panel=SIZES)] = 2_000_000,
    queries: Annotated[int, typer.Option("--queries", min=1, help="To search for.", rich_help_panel=SIZES)] = 100,
    factory: Annotated[str, typer.Option("--factory", help="Of faiss, with IVF in it.")] = "IVF512,PQ64",
    probes: Annotated[int, typer.Option("--probes", min=1, help="Lists that a search looks into.")] = 64,
    training: Annotated[int, typer.Option("--training", min=1, help="Points that it learns from.")] = 20_000,
    processes: Annotated[int, typer.Option("--processes", min=1, max=64, help="Of one thread each.")] = 2,
    features: Annotated[
        Path, typer.Option("--features", help="File that real features are kept in.", rich_help_panel=options.RUN)
    ] = Path("out/bench/features.safetensors"),
    out: Out = None,
    as_json: options.Json = False,
) -> None:
    """Candidates for millions of examples: an index in files, in parts, and its recall against exact search."""
    plan = index_bench.Plan(points, queries, factory, probes, training, processes)
    figures = index_bench.run(plan, features)
    where = {**environment("cpu"), "threads": 1}
    result: dict[str, Any] = {"bench": "index", "command": command_line(), "environment": where, **figures}
    finish(result, index_bench.table(result), out or Path("out/bench/index.json"), {"as_json": as_json})
