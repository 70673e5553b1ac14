"""`fastif bench`: how fast it is, against the naive way and against other libraries, on the hardware at hand."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markdown import Markdown

from fastif.bench import explorer as explorer_bench
from fastif.bench import layout as layout_bench
from fastif.bench import page as pages
from fastif.bench import paper as paper_bench
from fastif.bench import queries as queries_bench
from fastif.bench import scan as scan_bench
from fastif.bench import solve as solve_bench
from fastif.bench.cases import CASES, Wanted, make_case
from fastif.bench.timing import command_line
from fastif.cli import options
from fastif.cli.console import OUT, note, print_json
from fastif.cli.loading import pick_device
from fastif.errors import ConfigurationError
from fastif.files import replacing
from fastif.measuring.engine import Settings
from fastif.measuring.timing import environment

app = typer.Typer(
    help="How fast it is, against the naive way and other libraries; baselines are measured in the same run.",
    no_args_is_help=True,
)
SIZES = "What is measured"


CaseName = Annotated[
    str | None,
    typer.Option(
        "--case", help=f"{', '.join(CASES)}; bert-base on a GPU and minilm-sst2 elsewhere.", rich_help_panel=SIZES
    ),
]
Examples = Annotated[
    int | None,
    typer.Option("--examples", min=2, help="Training examples; the usual number of the case.", rich_help_panel=SIZES),
]
Model = Annotated[
    str | None,
    typer.Option("--model", help="A checkpoint in place of random weights, for bert-base.", rich_help_panel=SIZES),
]
Tokens = Annotated[
    Path | None,
    typer.Option(
        "--tokens", help="Real tokens for bert-base: safetensors with ids, lengths, labels.", rich_help_panel=SIZES
    ),
]
Queries = Annotated[
    str | None, typer.Option("--queries", help="Numbers of queries, such as 1,16,64.", rich_help_panel=SIZES)
]
Sample = Annotated[
    int | None,
    typer.Option("--sample", min=2, help="Examples that baselines are timed on.", rich_help_panel=SIZES),
]
Depth = Annotated[
    int | None,
    typer.Option(
        "--depth", min=1, help="Steps of LiSSA that are timed; below 1,000 extrapolated.", rich_help_panel=SIZES
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        dir_okay=False,
        help="The file that the figures go to; one in out/bench unless given.",
        rich_help_panel=options.RUN,
    ),
]


def read_counts(words: str | None) -> dict[str, Any]:
    """Return numbers of queries, none where none are given."""
    if words is None:
        return {}
    try:
        counts = tuple(int(word) for word in words.split(","))
    except ValueError:
        counts = ()
    if not counts or min(counts) < 1 or max(counts) > 400:
        raise ConfigurationError(f"--queries {words} must be numbers from 1 to 400 with commas between them: 1,16,64.")
    return {"queries": counts}


def measure(bench: Any, given: dict[str, Any], plan: Any) -> None:
    """Make the case, run a benchmark on it, show its tables and write its figures."""
    device = pick_device(given["device"]).type
    settings = Settings(options.precision(given["dtype"]), options.read_bytes(given["memory_budget"]))
    name = given["case"] or ("bert-base" if device == "cuda" else "minilm-sst2")
    wanted = Wanted(given["examples"], device, given["seed"], given.get("model"), given.get("tokens"))
    case = make_case(name, wanted)
    note(f"{case.model_words}. Data: {case.data_words}.")
    figures = bench.run(case, settings, plan)
    kind = bench.__name__.rpartition(".")[2]
    result = {
        "bench": kind,
        "command": command_line(),
        "environment": environment(device),
        "case": case.as_json(),
        "settings": {"precision": settings.precision, "memory_budget": settings.memory_budget},
        **figures,
    }
    finish(result, bench.table(result), given["out"] or Path("out/bench") / f"{kind}-{name}-{device}.json", given)


def finish(result: dict[str, Any], table: str, out: Path, given: dict[str, Any]) -> None:
    """Write the figures to a file, and show them."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(out) as temporary:
        temporary.write_text(json.dumps(result, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    if given["as_json"]:
        print_json(result)
    elif OUT.is_terminal:
        OUT.print(Markdown(table))
    else:
        OUT.print(table, markup=False)
    note(f"Written to {out}")


@app.command("scan")
def scan(
    case: CaseName = None,
    examples: Examples = None,
    model: Model = None,
    tokens: Tokens = None,
    queries: Queries = None,
    sample: Sample = None,
    reference: Annotated[
        int, typer.Option("--reference", min=2, help="Scores compared with float32 ones.", rich_help_panel=SIZES)
    ] = 20_000,
    device: options.Device = None,
    dtype: options.DtypeOption = options.Dtype.AUTO,
    memory_budget: options.MemoryBudget = None,
    seed: options.Seed = 0,
    out: Out = None,
    as_json: options.Json = False,
) -> None:
    """Score all training examples, s_test given: against naive and batched gradients, and against float32."""
    given = locals()
    plan = scan_bench.Plan(**read_counts(queries), **_set(sample=sample), reference=reference, seed=seed)
    measure(scan_bench, given, plan)


@app.command("solve")
def solve(
    case: CaseName = None,
    examples: Examples = None,
    model: Model = None,
    tokens: Tokens = None,
    queries: Queries = None,
    depth: Depth = None,
    device: options.Device = None,
    dtype: options.DtypeOption = options.Dtype.AUTO,
    memory_budget: options.MemoryBudget = None,
    seed: options.Seed = 0,
    out: Out = None,
    as_json: options.Json = False,
) -> None:
    """Solve for s_test: the library's choice for many queries, each solver alone, and the naive way."""
    given = locals()
    measure(solve_bench, given, solve_bench.Plan(**read_counts(queries), **_set(depth=depth), seed=seed))


@app.command("queries")
def queries(
    case: CaseName = None,
    examples: Examples = None,
    model: Model = None,
    tokens: Tokens = None,
    queries: Queries = None,
    sample: Sample = None,
    nearest: Annotated[
        int | None, typer.Option("--nearest", min=1, help="Candidates of two stages.", rich_help_panel=SIZES)
    ] = None,
    device: options.Device = None,
    dtype: options.DtypeOption = options.Dtype.AUTO,
    memory_budget: options.MemoryBudget = None,
    seed: options.Seed = 0,
    out: Out = None,
    as_json: options.Json = False,
) -> None:
    """From the text of queries to their strongest 100 examples: one query, many, in two stages; a fitted line."""
    given = locals()
    plan = queries_bench.Plan(**read_counts(queries), **_set(sample=sample, nearest=nearest), seed=seed)
    measure(queries_bench, given, plan)


@app.command("paper")
def paper(
    case: CaseName = None,
    examples: Examples = None,
    model: Model = None,
    tokens: Tokens = None,
    repeats: Annotated[
        int, typer.Option("--queries", min=1, help="Queries that are timed one by one.", rich_help_panel=SIZES)
    ] = 3,
    sample: Sample = None,
    depth: Depth = None,
    candidates: Annotated[
        list[int] | None,
        typer.Option("--candidates", help="Only rows with so many; 0 for all examples.", rich_help_panel=SIZES),
    ] = None,
    only_fast: Annotated[
        bool, typer.Option("--only-fast", help="Leave out batches of 128.", rich_help_panel=SIZES)
    ] = False,
    device: options.Device = None,
    dtype: options.DtypeOption = options.Dtype.AUTO,
    memory_budget: options.MemoryBudget = None,
    seed: options.Seed = 0,
    out: Out = None,
    as_json: options.Json = False,
) -> None:
    """Table 1 of the paper on this hardware: kNN candidates and LiSSA with the paper's settings."""
    given = locals()
    fast = tuple(kind for kind, (size, *_) in paper_bench.KINDS.items() if size == 1)
    rows = {"kinds": fast if only_fast else None, "candidates": tuple(candidates) if candidates else None}
    plan = paper_bench.Plan(queries=repeats, **_set(sample=sample, depth=depth, **rows), seed=seed)
    measure(paper_bench, given, plan)


@app.command("peers")
def peers(
    only: Annotated[
        list[str] | None, typer.Option("--only", help="A library to run; may be given again.", rich_help_panel=SIZES)
    ] = None,
    examples: Examples = None,
    queries: Annotated[
        int | None, typer.Option("--queries", min=1, help="Queries to explain.", rich_help_panel=SIZES)
    ] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Of every process.", rich_help_panel=options.RUN)
    ] = None,
    work: Annotated[
        Path, typer.Option("--work", help="Where environments and scores go.", rich_help_panel=options.RUN)
    ] = Path("out/bench/peers"),
    out: Out = None,
    as_json: options.Json = False,
) -> None:
    """Other libraries on the same model, data and queries, on a CPU, each in a virtual environment of its own."""
    from fastif.bench import peers as bench  # reads data of scikit-learn, which no other command needs

    figures = bench.run(work, **_set(only=only, examples=examples, queries=queries, threads=threads))
    result = {"bench": "peers", "command": command_line(), "environment": environment("cpu"), **figures}
    finish(result, bench.table(result), out or Path("out/bench/peers.json"), {"as_json": as_json})


@app.command("layout")
def layout(
    queries: Annotated[int, typer.Option("--queries", min=4, help="On the circle.", rich_help_panel=SIZES)] = 400,
    points: Annotated[
        int, typer.Option("--points", min=1, help="Training points that are placed.", rich_help_panel=SIZES)
    ] = 112_130,
    edges: Annotated[int, typer.Option("--edges", min=1, help="Between them.", rich_help_panel=SIZES)] = 400_000,
    sample: Annotated[
        int, typer.Option("--sample", min=1, help="Places that a general solver finds.", rich_help_panel=SIZES)
    ] = 200,
    seed: options.Seed = 0,
    out: Out = None,
    as_json: options.Json = False,
) -> None:
    """The layout of a graph of influence as large as the paper's, against a general solver node by node."""
    plan = layout_bench.Plan(queries, points, edges, sample=sample, seed=seed)
    where = {"command": command_line(), "environment": environment("cpu")}
    result = {"bench": "layout", **where, **layout_bench.run(plan)}
    finish(result, layout_bench.table(result), out or Path("out/bench/layout.json"), {"as_json": as_json})


@app.command("explorer")
def explorer(
    queries: Annotated[int, typer.Option("--queries", min=4, help="Predictions.", rich_help_panel=SIZES)] = 400,
    points: Annotated[int, typer.Option("--points", min=1, help="Training examples.", rich_help_panel=SIZES)] = 112_130,
    edges: Annotated[int, typer.Option("--edges", min=1, help="Between them.", rich_help_panel=SIZES)] = 400_000,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Times the page is opened.")] = 3,
    steps: Annotated[int, typer.Option("--steps", min=4, help="Moves of the pointer and the slider.")] = 24,
    browser: Annotated[
        str | None, typer.Option("--browser", help="A Chromium; that of the system unless given.")
    ] = None,
    out: Out = None,
    as_json: options.Json = False,
) -> None:
    """The explorer in a browser without a GPU: first picture, hover, slider, zoom and memory."""
    plan = explorer_bench.Plan(queries, points, edges, repeats, steps, browser)
    where = {"command": command_line(), "environment": environment("cpu")}
    result = {"bench": "explorer", **where, **explorer_bench.run(plan)}
    finish(result, explorer_bench.table(result), out or Path("out/bench/explorer.json"), {"as_json": as_json})


@app.command("page")
def page(
    figures: Annotated[Path, typer.Option("--figures", help="Directory of the files of runs.")] = Path(
        "docs/benchmarks"
    ),
    out: Annotated[Path, typer.Option("--out", dir_okay=False, help="The page.")] = Path("docs/benchmarks.md"),
) -> None:
    """Make docs/benchmarks.md from the files in docs/benchmarks."""
    pages.write_page(figures, out)
    note(f"Written to {out}")


def _set(**given: Any) -> dict[str, Any]:
    """Return the options that were given."""
    return {name: value for name, value in given.items() if value is not None}
