"""What follows from the measurements for other sizes: a model of a few constants. Predictions, and called so.

Time of a stage = examples of the fullest process x time by example + calls x latency + bytes of a link / its bandwidth.
An all-reduce is taken as a ring (measuring/link.py), a broadcast of b bytes as b; results of others as what arrives at
the leader. Which process holds how many examples is counted as the library deals them out.
Knows figures of runs, and measures nothing.
"""

from dataclasses import dataclass
from typing import Any

from fastif.measuring.link import NUMBER, Link, bytes_of, ring
from fastif.measuring.words import markdown, seconds, size
from fastif.shares import Share

Run = dict[str, Any]
EXAMPLES, GPUS = (10**6, 10**7, 10**8, 10**9), (4, 8, 64)
STATE_NUMBER = 2  # bytes of a state's entry in half precision
WIDTH = 768  # of a state, BERT-base


LISSA = "LiSSA repeats"  # how the names of its stages begin


@dataclass(frozen=True)
class Machine(Link):
    """What is assumed of the hardware, beside the link.

    Args:
        disk: bytes a second that a process reads stored states with.
        gpu_memory: bytes of a GPU that states may take.
        memory: bytes of main memory for each GPU that states may take.
    """

    disk: float = 3e9
    gpu_memory: float = 90e9
    memory: float = 200e9


@dataclass(frozen=True)
class Gpu:
    """What one GPU needs for one example, from runs on it; a product in multiples of a scan from a CPU."""

    encode: float
    scan: float
    scan_from_memory: float
    product_in_scans: float
    state_bytes: float
    parameters: int


def fullest(total: int, ranks: int) -> int:
    """Return how many examples the process with the most of them holds.

    >>> fullest(1000, 4), fullest(100, 64)
    (252, 7)
    """
    chunk = Share(0, ranks, total).chunk
    chunks = -(-total // chunk)
    return min(total, -(-chunks // ranks) * chunk)


def sent(stage: str, plan: dict[str, Any], parameters: int, examples: int, ranks: int) -> dict[str, float]:
    """Return the calls and bytes of a stage by the formula of the page: `tensors` as counted, `link` as carried."""
    block = bytes_of(parameters, vectors=plan["queries"])
    if ranks == 1 or stage == "frozen layers":
        return {"calls": 0, "tensors": 0, "link": 0}
    if stage == "conjugate gradients":
        products = plan["products"] + 1  # the last for the residual
        return {"calls": 2 * products, "tensors": 2 * products * block, "link": products * (1 + ring(ranks)) * block}
    if stage.startswith(LISSA):
        together = bytes_of(parameters, vectors=plan["queries"] * plan["lissa_repeats"])
        return {"calls": 2, "tensors": block + together, "link": block + ring(ranks) * together}
    share = Share(0, ranks, examples)
    chunks = -(-examples // share.chunk)
    others = sum(min(share.chunk, examples - n * share.chunk) for n in range(chunks) if n % ranks)
    results = NUMBER * plan["queries"] * others
    return {
        "calls": 1 + sum(n % ranks != 0 for n in range(chunks)),
        "tensors": block + results,
        "link": block + results,
    }


def check(run: Run) -> list[dict[str, Any]]:
    """Return for each measured row what the model says of it, from the times of one process and of the link alone."""
    rows, plan, case = [], run["plan"], run["case"]
    alone = {row["stage"]: row["seconds"] for row in run["rows"] if not row["team"]}
    for row in run["rows"]:
        ranks, stage = row["processes"], row["stage"]
        if ranks == 1:
            continue
        if stage.startswith(LISSA):
            share = -(-plan["lissa_repeats"] // ranks) / plan["lissa_repeats"]
        else:
            share = fullest(case["examples"], ranks) / case["examples"]
        it = sent(stage, plan, case["parameters"], case["examples"], ranks)
        modelled = alone[stage] * share + fitted_link(run, ranks).seconds(it["calls"], it["link"])
        rows.append({"stage": stage, "processes": ranks, "measured": row["seconds"], "modelled": modelled})
        rows[-1] |= {"formula": it["tensors"], "bytes": row["bytes"]}
    return rows


def fitted_link(run: Run, ranks: int) -> Link:
    """Return the link that the two all-reduces of a run show."""
    small, large = sorted((row for row in run["link"] if row["processes"] == ranks), key=lambda row: row["bytes"])
    carried = ring(ranks) * (large["bytes"] - small["bytes"])
    return Link(carried / max(1e-9, large["seconds"] - small["seconds"]), small["seconds"])


def gpu_of(runs: list[Run], run: Run) -> Gpu | None:
    """Return what one GPU needs, from the scans of BERT-base in half precision; None where they are missing."""
    scans = [each for each in runs if each["bench"] == "scan" and each["case"]["name"] == "bert-base"]
    half = [each for each in scans if each["settings"]["precision"] == "float16"]
    free = next((each for each in half if not each["settings"]["memory_budget"]), None)
    bound = next((each for each in half if each["settings"]["memory_budget"]), None)
    if free is None or bound is None:
        return None
    examples, tokens = free["case"]["examples"], free["case"]["tokens"]
    one = {row["stage"]: row["seconds"] for row in run["rows"] if not row["team"]}
    products = (run["plan"]["products"] + 1) * min(run["plan"]["curvature_examples"], run["case"]["examples"])
    return Gpu(
        encode=free["prefix"]["seconds"] / examples,
        scan=free["rows"][0]["scan_s"] / examples,
        scan_from_memory=bound["rows"][0]["scan_s"] / bound["case"]["examples"],
        product_in_scans=one["conjugate gradients"] / products / (one["scoring"] / run["case"]["examples"]),
        state_bytes=tokens / examples * WIDTH * STATE_NUMBER,
        parameters=free["case"]["parameters"],
    )


def predicted(gpu: Gpu, machine: Machine, examples: int, ranks: int) -> dict[str, Any]:
    """Return the times of one query, and what is short, for so many examples on so many GPUs."""
    most = fullest(examples, ranks)
    states = most * gpu.state_bytes
    place = "GPU" if states <= machine.gpu_memory else "memory" if states <= machine.memory else "disk"
    each = gpu.scan if place == "GPU" else gpu.scan_from_memory
    computing, reading = most * each, states / machine.disk if place == "disk" else 0.0
    one = {"queries": 1, "products": 0, "lissa_repeats": ranks}
    scanned, solved, repeated = (
        sent(stage, one, gpu.parameters, examples, ranks) for stage in ("scoring", "conjugate gradients", LISSA)
    )
    carried = [machine.seconds(it["calls"], it["link"]) for it in (scanned, solved, repeated)]
    product = max(computing * gpu.product_in_scans, reading) + carried[1]
    scan = max(computing, reading) + carried[0]
    return {
        "examples": examples,
        "gpus": ranks,
        "states": states,
        "place": place,
        "encode_s": most * gpu.encode,
        "product_s": product,
        "sending_s": carried[1],
        "repeats_s": carried[2],
        "scan_s": scan,
        "leader": NUMBER * examples,
        "first": _short(place, reading > computing, carried[0] > computing, most * ranks > 1.5 * examples),
    }


def _short(place: str, reads: bool, sends: bool, uneven: bool) -> str:
    if reads:
        return "the disk: states are read more slowly than scored"
    if sends:
        return "the link: vectors and scores take longer than the work"
    if uneven:
        return "chunks: too few for so many GPUs"
    return {"GPU": "nothing", "memory": "GPU memory: states are copied in", "disk": "memory: states are on disk"}[place]


def table(gpu: Gpu, machine: Machine) -> str:
    """Return the predictions as markdown."""
    rows = []
    for examples in EXAMPLES:
        for gpus in GPUS:
            it = predicted(gpu, machine, examples, gpus)
            times = [seconds(it[name]) for name in ("encode_s", "product_s", "sending_s", "repeats_s", "scan_s")]
            states = f"{size(it['states'])}, {it['place']}"
            rows.append(
                [f"{examples:.0e}".replace("e+0", "e"), f"{gpus}", states, *times, size(it["leader"]), it["first"]]
            )
    columns = ["examples", "GPUs", "states of a GPU", "frozen layers, once", "product with H over all", "of it sending"]
    return markdown(
        [*columns, "LiSSA's all-reduce", "scan, one query", "scores at rank 0", "what is short first"], rows
    )
