"""docs/scaling.md, made from the files of figures in docs/benchmarks: `fastif bench page`. Measures nothing."""

from pathlib import Path
from typing import Any

from fastif.bench import index, scaling
from fastif.bench.scaling.predict import (
    LISSA,
    STATE_NUMBER,
    WIDTH,
    Gpu,
    Machine,
    check,
    fitted_link,
    gpu_of,
    sent,
    table,
)
from fastif.measuring.link import NUMBER
from fastif.measuring.words import markdown, seconds

Run = dict[str, Any]
MANY_GPUS = 64
INTRODUCTION = """# How it scales

<!-- Made by `fastif bench page` from the files in docs/benchmarks. Do not edit: measure again, and make it anew. -->

How several processes share the work is told in [several processes](several-processes.md). Here is what that costs and
gains: first measured, then predicted and marked so."""
FORMULA = """## What is sent

For Q queries, p parameters of 4 bytes, T repeats of LiSSA and n examples, of which rank 0 holds m, the tensors of one
call have

| stage | bytes to all | bytes back |
| --- | --- | --- |
| states of the frozen layers | 0 | 0 |
| the paper's LiSSA, once for a block of Q queries | 4 p Q | **one all-reduce of 4 p Q T** |
| one product with the curvature | 4 p Q | one all-reduce of 4 p Q |
| scores | 4 p Q | 4 Q (n - m) to rank 0, chunk by chunk |

Where not all examples are scored, their numbers are sent too, 8 bytes each. A test counts the calls and bytes of
LiSSA's row; the measurement below counts those of all rows. An all-reduce of b bytes among G processes sends
2 (G - 1) / G x b through each link, as the usual ring does."""

INDEX = """## Candidates beyond the memory of one machine

`FaissShards` ([candidates](candidates.md)) keeps compressed keys in files, each process those of its own examples. What
it finds is a first choice: the candidates are then scored exactly. Measured, against an exact search:"""


def make_page(runs: list[tuple[Path, Run]]) -> str | None:
    """Return the page; None where nothing of it was measured."""
    mine = [(path, run) for path, run in runs if run["bench"] == "scaling"]
    if not mine:
        return None
    parts = [INTRODUCTION, FORMULA, "## Measured"]
    for path, run in mine:
        parts += [_measured(path, run)]
    parts += predictions([run for _, run in runs])
    for path, run in runs:
        if run["bench"] == "index":
            parts += [INDEX, _index(path, run)]
    return "\n\n".join(parts) + "\n"


def _measured(path: Path, run: Run) -> str:
    where, case = run["environment"], run["case"]
    known = ", ".join(f"{name} {where[name]}" for name in ("python", "torch", "fastif", "commit") if name in where)
    words = [
        f"    {run['command']}",
        f"{case['model']}. Data: {case['data']}. {where['hardware']}; {known}.",
        scaling.table(run),
    ]
    remarks = path.with_suffix(".txt")
    if remarks.exists():
        words.append(remarks.read_text(encoding="utf-8").strip())
    return "\n\n".join([*words, "### The model against these measurements", checked(run)] if run["link"] else words)


def _index(path: Path, run: Run) -> str:
    where = run["environment"]
    known = ", ".join(f"{name} {where[name]}" for name in ("python", "torch", "fastif", "commit") if name in where)
    words = [f"    {run['command']}", f"{where['hardware']}; {known}.", index.table(run)]
    remarks = path.with_suffix(".txt")
    if remarks.exists():
        words.append(remarks.read_text(encoding="utf-8").strip())
    return "\n\n".join(words)


def checked(run: Run) -> str:
    """Return how far the model is from what it was fitted to."""
    rows = [
        [
            row["stage"],
            f"{row['processes']}",
            seconds(row["measured"]),
            seconds(row["modelled"]),
            f"{row['measured'] / row['modelled']:.2f}",
            f"{row['bytes']:,}",
            f"{row['formula']:,.0f}",
        ]
        for row in check(run)
    ]
    counts = sorted({row["processes"] for row in run["link"]})
    links = "; ".join(
        f"{count} processes: {1e6 * link.latency:.0f} us and {link.bandwidth / 1e9:.1f} GB/s"
        for count in counts
        for link in [fitted_link(run, count)]
    )
    columns = ["stage", "processes", "measured", "by the model", "ratio", "bytes counted", "bytes by the formula"]
    return markdown(columns, rows) + f"\n\nThe link between these processes, from all-reduces alone: {links}."


def predictions(runs: list[Run], machine: Machine | None = None) -> list[str]:
    """Return the predictions in words and a table; none where a measurement that they rest on is missing."""
    run = next((each for each in runs if each["bench"] == "scaling" and each["link"]), None)
    gpu = None if run is None else gpu_of(runs, run)
    if gpu is None:
        return []
    machine = machine or Machine()
    return ["## Predicted, not measured", _assumptions(gpu, machine), table(gpu, machine), _breaks(gpu, machine)]


def _assumptions(gpu: Gpu, machine: Machine) -> str:
    encode, scan, other = (f"{1e6 * each:.1f} us" for each in (gpu.encode, gpu.scan, gpu.scan_from_memory))
    link = f"{machine.bandwidth / 1e9:g}"
    return f"""Nothing below was run on several GPUs. `fastif bench scaling --predict` prints it, with other links and
disks by `--link` and `--disk`. It assumes that

- a GPU is an H200 on BERT-base in float16 ([benchmarks](benchmarks.md)), which takes for each example {encode} for the
  frozen layers and {scan} for a scan of one query, or {other} where states lie in main memory; the states of an
  example have {gpu.state_bytes / 1e3:.0f} kB, as those of an NLI pair, and there are {gpu.parameters:,} parameters;
- a product with the curvature takes {gpu.product_in_scans:.1f} times a scan, as in the measurement above. A solve takes
  some tens of them, usually over a sample of the examples; the table has one over all;
- each process sends and receives {link} GB/s, and a call takes {1e6 * machine.latency:g} us; a disk for
  each process gives {machine.disk / 1e9:g} GB/s; states may take {machine.gpu_memory / 1e9:g} GB of a GPU, and if that
  is too little {machine.memory / 1e9:g} GB of main memory for each;
- nothing is sent while something is computed; LiSSA has as many repeats as there are GPUs, each on one. What its steps
  take does not change with the number of examples."""


def _breaks(gpu: Gpu, machine: Machine) -> str:
    lost, every = gpu.scan_from_memory / gpu.scan, gpu.state_bytes
    one = {"queries": 1, "lissa_repeats": MANY_GPUS}
    carried = sent(LISSA, one, gpu.parameters, 10**6, MANY_GPUS)["link"]
    tokens = 3 * NUMBER * every / (WIDTH * STATE_NUMBER)
    return f"""What breaks as the training set and the number of GPUs grow:

- **Memory of states**, first of all. They leave the GPU, after which a scan takes {lost:.1f} times as long, and then
  main memory. From there on they are read from disk while others are worked on: the slower of the two sets the time.
- **Disk.** The states of 1e9 examples of this length have {every / 1e3:.0f} TB together.
- **Texts.** Each process reads all of the training file, and holds its tokens, three numbers of 4 bytes for each:
  {tokens / 1e3:.2f} TB in every process at 1e9 examples. Only states, keys and scores are shared out so far.
- **Rank 0.** The scores of all examples come together there, 4 bytes for each example and query: 4 GB for one query
  at 1e9, 1.6 TB for 400. The way out is to hold the strongest alone (`--scores strongest`), or
  [candidates](candidates.md).
- **All-reduce.** That of a product neither grows with the number of examples nor falls with that of GPUs. That of LiSSA
  brings all T repeats to all, for their standard error: with a repeat for each of {MANY_GPUS} GPUs each link carries
  {carried / 1e9:.1f} GB for a query, which takes {seconds(carried / machine.bandwidth)}.
- **Chunks.** A chunk of at most 8,192 examples is the smallest part that is dealt out: 64 GPUs want half a million
  examples and more."""
