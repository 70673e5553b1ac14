"""docs/benchmarks.md and docs/scaling.md, made from the files of figures in docs/benchmarks: `fastif bench page`.

Each file holds one run as its command wrote it. A text file of the same name (`scan-h200.txt` beside
`scan-h200.json`) is put below its table: what a profile showed, what is missing to a goal. Knows files and tables, and
measures nothing.
"""

import importlib
import json
from pathlib import Path
from typing import Any

from fastif.bench.goals import goals_table
from fastif.bench.scaling import page as scaling_page
from fastif.errors import StoredFileError
from fastif.files import replacing

TITLES = {
    "scan": "Scores of all examples, s_test given",
    "solve": "The inverse-Hessian-vector product",
    "queries": "From a query to its strongest 100 examples",
    "paper": "Table 1 of the paper on this hardware",
    "layout": "Layout of a graph of influence",
    "explorer": "The explorer in a browser",
    "peers": "Other libraries",
}
ELSEWHERE = ("scaling", "index")  # on the page docs/scaling.md
INTRODUCTION = """# Benchmarks

<!-- Made by `fastif bench page` from the files in docs/benchmarks. Do not edit: measure again, and make it anew. -->

Every table is one run of the command above it, and every baseline was measured in that same run, unless a remark under
it says otherwise. *Naive* is the paper's own idea done fairly: one text after another at its true length, the whole
model forward and backward to the chosen parameters, no graph kept for a second derivative. It is timed on a sample and
extrapolated, as its cost is in proportion to the examples and the queries. *Batched gradients* are those of all
examples of a batch at once."""
NOTHING = "No figures are here yet: run `fastif bench scan --out docs/benchmarks/scan.json` and make this page again."


def make_page(directory: Path) -> str:
    """Return the page of all figures in a directory."""
    runs = read_runs(directory)
    parts = [INTRODUCTION]
    goals = goals_table([run for _, run in runs])
    if goals:
        parts += ["## Goals", goals]
    if not runs:
        parts.append(NOTHING)
    for bench, title in TITLES.items():
        mine = [(path, run) for path, run in runs if run["bench"] == bench]
        module = _module(bench)
        if hasattr(module, "section"):  # writes everything itself
            parts += ["\n\n".join([module.section(run).strip(), *_remarks(path)]) for path, run in mine]
        elif mine:
            parts += [f"## {title}", *(section(path, run) for path, run in mine)]
    return "\n\n".join(parts) + "\n"


def read_runs(directory: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Read all files of figures in a directory."""
    return [(path, read_run(path)) for path in sorted(directory.glob("*.json"))]


def read_run(path: Path) -> dict[str, Any]:
    """Read a file of figures."""
    try:
        run = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoredFileError(f"{path} could not be read as figures: {error}. Measure again, or remove it.") from error
    if not isinstance(run, dict) or run.get("bench") not in (*TITLES, *ELSEWHERE):
        raise StoredFileError(f"{path} was not written by fastif bench: it names no benchmark. Remove it from there.")
    return run


def section(path: Path, run: dict[str, Any]) -> str:
    """Return one run in words and tables."""
    where = run["environment"]
    case = run.get("case")
    title = where["hardware"] + ("" if case is None else f", {case['name']}")
    known = ", ".join(f"{name} {where[name]}" for name in ("python", "torch", "fastif", "commit") if name in where)
    words = [f"### {title}", f"    {run['command']}"]
    if case is not None:
        words.append(f"{case['model']}. Data: {case['data']}.")
    words.append(f"{where['hardware']}, {where['threads']} threads; {known}.")
    return "\n\n".join([*words, run_table(run), *_remarks(path)])


def _remarks(path: Path) -> list[str]:
    """Return what was written by hand beside a file of figures."""
    remarks = path.with_suffix(".txt")
    return [remarks.read_text(encoding="utf-8").strip()] if remarks.exists() else []


def run_table(run: dict[str, Any]) -> str:
    """Return the tables of a run, by the benchmark that measured it."""
    return str(_module(run["bench"]).table(run))


def _module(bench: str) -> Any:
    return importlib.import_module(f"fastif.bench.{bench}")


def write_page(directory: Path, page: Path) -> None:
    """Write the page, and beside it that of scaling, where that was measured."""
    scaling = scaling_page.make_page(read_runs(directory))
    for file, text in ((page, make_page(directory)), (page.with_name("scaling.md"), scaling)):
        if text is not None:
            with replacing(file) as temporary:
                temporary.write_text(text, encoding="utf-8")
