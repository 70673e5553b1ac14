"""Run every method of every library in a process of its own, one after another, and compare their scores.

Knows the catalogue and the measuring program; what the figures look like in print is report.py's. A method that fails
is a row that says why, and the others go on.
"""

import json
import os
import platform
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

import fastif
from fastif.bench.peers.catalogue import PEERS, SCRIPTS, Method, Peer
from fastif.bench.peers.environments import EnvironmentNotMadeError, interpreter
from fastif.bench.peers.problem import read_exact, write_problem
from fastif.errors import ConfigurationError
from fastif.metrics import pearson

SECONDS_ALLOWED = 600.0
BYTES_ALLOWED = 6 * 2**30
SHORT = 20.0  # seconds: what takes less is run again, and the least processor time counts
REPEATS = 3
BLAS_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def run(
    out: Path, *, only: list[str] | None = None, examples: int = 1400, queries: int = 100, threads: int = 1
) -> dict[str, Any]:
    """Return the rows and the problem that they were measured on, as plain data.

    Args:
        out: a directory for the problem, the environments and the scores; what is there already is used again.
        only: the names of the libraries to run; all of them by default, fastif among them.
        examples: digits to train on.
        queries: digits to explain.
        threads: of every process. With one, seconds of processor time can be compared on a machine that is shared.
    """
    unknown = set(only or ()) - {peer.name for peer in PEERS}
    if unknown:
        known = ", ".join(peer.name for peer in PEERS)
        raise ConfigurationError(f"unknown libraries: {', '.join(sorted(unknown))}. Those that can run are {known}.")
    problem = out / "problem"
    described = write_problem(problem, examples, queries)
    rows = []
    for peer in PEERS:
        if only is None or peer.name in only:
            for row in peer_rows(peer, out, problem, threads=threads):
                print(
                    json.dumps({key: row[key] for key in ("library", "method", "cpu_seconds", "failed") if key in row})
                )
                rows.append(row)
    limits = {"threads": threads, "seconds_allowed": SECONDS_ALLOWED, "bytes_allowed": BYTES_ALLOWED}
    remarks = {peer.name: peer.remark for peer in PEERS if peer.remark}
    machine = {"hardware": f"{processor()}, {os.cpu_count()} cores", "fastif": fastif.__version__}
    return {"rows": rows, "problem": described, "remarks": remarks, **limits, **machine}


def processor() -> str:
    """Return what the system calls its processor."""
    listed = Path("/proc/cpuinfo")
    names = [line for line in listed.read_text().splitlines() if "model name" in line] if listed.exists() else []
    return names[0].split(":", 1)[1].strip() if names else f"{platform.machine()} CPU"


def peer_rows(peer: Peer, out: Path, problem: Path, *, threads: int) -> list[dict[str, Any]]:
    """Return a row for each method of a library; all say the same where the library cannot be installed."""
    names = [{"library": peer.name, "method": method.name} for method in peer.methods]
    try:
        python = interpreter(peer, out)
    except EnvironmentNotMadeError as error:
        return [{**name, "failed": str(error)} for name in names]
    exact = read_exact(problem)
    rows = []
    for name, method in zip(names, peer.methods, strict=True):
        row = {**name, "definition": method.definition, "given": method.given}
        rows.append({**row, **best_run(peer, method, python, problem=problem, exact=exact, threads=threads)})
    return rows


def best_run(
    peer: Peer, method: Method, python: Path, *, problem: Path, exact: dict[str, Tensor], threads: int
) -> dict[str, Any]:
    """Return the figures of a method: of the run that took the least processor time, where it is a short one."""
    runs: list[dict[str, Any]] = []
    while len(runs) < REPEATS:
        runs.append(one_run(peer, method, python, problem=problem, exact=exact, threads=threads))
        if "failed" in runs[-1] or runs[-1]["seconds"] > SHORT:
            break
    if "failed" in runs[-1]:
        return runs[-1]
    return {**min(runs, key=lambda figures: figures["cpu_seconds"]), "runs": len(runs)}


def one_run(
    peer: Peer, method: Method, python: Path, *, problem: Path, exact: dict[str, Tensor], threads: int
) -> dict[str, Any]:
    """Run a method once, in a process of its own, and compare its scores with the exact ones."""
    with tempfile.TemporaryDirectory() as directory:
        line = [str(python), str(SCRIPTS / "measure.py"), str(peer.script), method.name, str(problem), directory]
        line += ["--threads", str(threads), "--memory", str(BYTES_ALLOWED)]
        start = time.perf_counter()
        try:
            done = subprocess.run(
                line,
                check=False,
                capture_output=True,
                text=True,
                timeout=SECONDS_ALLOWED,
                env=process_environment(peer, threads),
            )
        except subprocess.TimeoutExpired:
            return {"failed": f"not done within {SECONDS_ALLOWED:,.0f} s"}
        elapsed = time.perf_counter() - start
        written = Path(directory) / "measured.json"
        if done.returncode or not written.exists():
            return {"failed": reason(done), "process_seconds": elapsed}
        measured: dict[str, Any] = json.loads(written.read_text())
        scores = load_file(Path(directory) / "scores.safetensors")["scores"]
    load = os.getloadavg()[0]  # of the last minute: how busy the machine was, this process included
    return {**measured, "process_seconds": elapsed, "load": load, **compared(scores, exact)}


def process_environment(peer: Peer, threads: int) -> dict[str, str]:
    """Return the variables of a measuring process: its threads, and the way to fastif for fastif's own."""
    variables = {**os.environ, **dict.fromkeys(BLAS_THREADS, str(threads))}
    variables.pop("PYTHONPATH", None)
    if peer.requirements is None:
        variables["PYTHONPATH"] = str(Path(fastif.__file__).parents[1])
    return variables


def reason(done: subprocess.CompletedProcess[str]) -> str:
    """Return why a process failed: the last line that it said, in words where memory ran out."""
    said = [text.strip() for text in done.stderr.splitlines() if text.strip()]
    last = said[-1][:300] if said else f"ended with status {done.returncode} and no word"
    if "allocate memory" in last or "MemoryError" in last or done.returncode == -9:
        return f"needs more than the {BYTES_ALLOWED / 2**30:.0f} GiB allowed"
    return last


def compared(scores: Tensor, exact: dict[str, Tensor]) -> dict[str, Any]:
    """Return the mean over queries of Pearson's correlation with each kind of exact scores."""
    expected = next(iter(exact.values())).shape
    if scores.shape != expected:
        return {"failed": f"gave scores of shape {tuple(scores.shape)} instead of {tuple(expected)}"}
    broken = int((~torch.isfinite(scores).all(dim=1)).sum())
    if broken:
        return {"failed": f"gave scores that are not finite for {broken} of {len(scores)} queries"}
    figures: dict[str, Any] = {f"pearson_{kind}": mean_pearson(scores, values) for kind, values in exact.items()}
    constant = int((scores.amax(dim=1) == scores.amin(dim=1)).sum())
    return {**figures, "constant_queries": constant} if constant else figures


def mean_pearson(scores: Tensor, exact: Tensor) -> float:
    """Return the mean over queries of the correlation along the training examples, zero where scores are constant."""
    pairs = zip(scores, exact, strict=True)
    rows = [pearson(mine, true) if mine.amax() > mine.amin() else 0.0 for mine, true in pairs]
    return sum(rows) / len(rows)
