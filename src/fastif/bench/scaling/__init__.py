"""How time and what is sent change with the number of processes, stage by stage.

    fastif bench scaling --processes 1,2,4

Every process has one thread, so that two have twice the cores of one and nothing else. One process is one without a
team; on a GPU it works as a team of one and without a team in turn, as two processes would differ by more than that.
Rounds go through all numbers of processes in turn, and the fastest of all rounds counts: what else the machine does
then hits all alike. Knows how processes are started; what each does is in rank.py, what follows for other sizes in
predict.py.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import fastif
from fastif.errors import FastifError
from fastif.measuring.words import markdown, number, seconds

LONGEST = 7200  # seconds that one start may take
TORCHRUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Plan:
    """What is measured.

    Args:
        case: by its name in cases.py.
        examples: of the training set; the usual number of the case unless given.
        processes: their numbers; one is always among them.
        rounds: through all of these.
        repeats: of each stage in a round; short ones are timed more often.
        queries: that are solved and scored for together.
        depth: steps of LiSSA with batches of one; a quarter of them with batches of 16.
        lissa_batches: B of LiSSA.
        lissa_repeats: T of LiSSA.
        products: of conjugate gradients.
        curvature_examples: that such a product goes through.
        seed: of the case.
        device: "cpu"; on "cuda" one process as a team of one, with NCCL, is compared with one that has no team.
    """

    case: str = "bert-mini"
    examples: int | None = None
    processes: Sequence[int] = (1, 2, 4)
    rounds: int = 2
    repeats: int = 1
    queries: int = 1
    depth: int = 30
    lissa_batches: Sequence[int] = (1, 16)
    lissa_repeats: int = 4
    products: int = 2
    curvature_examples: int = 512
    seed: int = 0
    device: str = "cpu"


def run(plan: Plan) -> dict[str, Any]:
    """Measure, and return the figures."""
    counts = [1] if plan.device == "cuda" else sorted({1, *plan.processes})
    ways = [(1, False), *((count, True) for count in counts if count > 1 or plan.device == "cuda")]
    found: dict[tuple[int, bool], list[dict[str, Any]]] = {way: [] for way in ways}
    for _ in range(plan.rounds):
        for count, team in ways[1:] if plan.device == "cuda" else ways:
            found[count, team].append(started(count, "fastif.bench.scaling.rank", asdict(plan), team=team))
    if plan.device == "cuda":
        found[1, False] = [{**each, "stages": each["alone"]} for each in found[1, True]]
    alone = _fastest(found[1, False])
    rows = []
    for count, team in ways:
        for stage, it in _fastest(found[count, team]).items():
            speed_up = alone[stage]["seconds"] / it["seconds"]
            said = {"processes": count, "team": team, "stage": stage, "speed_up": speed_up}
            rows.append({**said, **it, **_total(it["sent"])})
    link = [
        {"processes": count, **min((each["link"][size] for each in found[count, team]), key=lambda row: row["seconds"])}
        for count, team in ways
        for size in range(2)
        if count > 1
    ]
    ceilings = {str(count): max(each["ceiling"] for each in found[count, team]) for count, team in ways if count > 1}
    plain = {**asdict(plan), "processes": counts}
    case = found[1, False][0]["case"]
    return {"case": case, "cores": os.cpu_count(), "plan": plain, "rows": rows, "link": link, "ceilings": ceilings}


def started(count: int, module: str, asked: dict[str, Any], *, team: bool) -> dict[str, Any]:
    """Start a module in so many processes of one thread, and return what the first of them wrote to `out`.

    One process is either alone or a team of one.
    """
    environment = {name: value for name, value in os.environ.items() if name not in TORCHRUN}
    environment |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(Path(fastif.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    ).rstrip(os.pathsep)
    start = [] if not team else ["torch.distributed.run", "--standalone", "--nproc-per-node", str(count), "-m"]
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "figures.json"
        line = [sys.executable, "-m", *start, module, json.dumps({**asked, "out": str(out)})]
        ended = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=LONGEST, check=False)
        if ended.returncode or not out.exists():
            last = "\n".join(ended.stderr.strip().splitlines()[-20:])
            raise FastifError(f"a run of {count} processes ended with status {ended.returncode}. It said:\n{last}")
        read: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return read


def _fastest(rounds: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return each stage from the round in which it was fastest."""
    stages = rounds[0]["stages"]
    return {stage: min((each["stages"][stage] for each in rounds), key=lambda it: it["seconds"]) for stage in stages}


def _total(sent: dict[str, list[float]]) -> dict[str, float]:
    """Return calls, bytes and seconds of all kinds together."""
    return {
        "calls": sum(int(calls) for calls, _, _ in sent.values()),
        "bytes": sum(int(size) for _, size, _ in sent.values()),
        "sending_s": sum(took for _, _, took in sent.values()),
    }


def table(result: dict[str, Any]) -> str:
    """Return the figures as markdown."""
    rows = [
        [
            row["stage"],
            "1, as a team" if row["team"] and row["processes"] == 1 else f"{row['processes']}",
            seconds(row["seconds"]),
            f"{row['speed_up']:.2f}x",
            f"{row['calls']:,}",
            f"{row['bytes'] / 1e6:,.2f} MB",
            seconds(row["sending_s"]) if row["calls"] else "-",
        ]
        for row in sorted(result["rows"], key=lambda row: str(row["stage"]))
    ]
    plan = result["plan"]
    many = "query" if plan["queries"] == 1 else "queries"
    note = (
        f"Each process has one thread, on a machine of {result['cores']} cores. {plan['queries']} {many}; conjugate "
        f"gradients with {plan['products']} products, and one for the residual, over {plan['curvature_examples']:,} "
        f"examples; the paper's LiSSA with T = {plan['lissa_repeats']} and J = {plan['depth']}, a quarter of that for "
        f"B = 16. The fastest of {plan['rounds'] * plan['repeats']} times, of more where they are short. Calls, bytes "
        "and seconds are those of rank 0; bytes are those of the tensors, and in the seconds it waits for slower "
        "processes too: for scores, until the others made theirs."
    )
    if result["ceilings"]:
        most = ", ".join(f"{count}: {times:.2f}x" for count, times in result["ceilings"].items())
        note += (
            f" What the machine itself gives, by matrix products of one thread in all processes at once: {most}. That "
            "is less than the number of processes where two threads share a core, or others the machine."
        )
    compared = [row for row in result["rows"] if row.get("difference") is not None]
    if compared:
        words = "; ".join(f"{row['stage']} {number(row['difference'], 2)}" for row in compared)
        note += f" What comes out as a team differs from what comes out without one, relative to it, by: {words}."
    columns = ["stage", "processes", "time", "speed-up", "calls", "sent", "sending and waiting"]
    return markdown(columns, rows) + "\n\n" + note
