"""What all benchmarks share: how time is taken, what the figures depend on, where they are written."""

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch

import fastif

REPEATS = 3
LONG = 30.0  # seconds, after which nothing is repeated
Result = TypeVar("Result")


def best_time(function: Callable[[], Result], device: str, repeats: int = REPEATS) -> tuple[float, Result]:
    """Return the shortest of a few times, and the result; what takes long is not run again."""
    times: list[float] = []
    while len(times) < max(1, repeats) and sum(times) < LONG:
        start = time.perf_counter()
        result = function()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times), result


def environment(device: str) -> dict[str, Any]:
    """Return what the figures depend on."""
    hardware = torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()} CPU"
    versions = {"python": platform.python_version(), "torch": torch.__version__, "fastif": fastif.__version__}
    return {"hardware": hardware, "threads": torch.get_num_threads(), **versions, "commit": commit()}


def commit() -> str:
    """Return the commit of the code, with a plus if files differ from it.

    Outside of a repository it is what the environment variable FASTIF_COMMIT says, or "unknown".
    """
    package = Path(fastif.__file__).parent
    try:
        name = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"], cwd=package, capture_output=True, text=True, check=True
        )
        changed = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "."], cwd=package, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("FASTIF_COMMIT", "unknown")
    return name.stdout.strip() + ("+" if changed.returncode else "")


def command_line() -> str:
    """Return the command that is running, as one would type it."""
    program = Path(sys.argv[0])
    name = f"python -m fastif.bench.{program.stem}" if program.parent.name == "bench" else "fastif"
    return shlex.join([*name.split(), *sys.argv[1:]])


def line_fit(x: Sequence[float], y: Sequence[float]) -> dict[str, float]:
    """Return the line y = slope x + constant that fits best in the least squares, and R^2.

    >>> fit = line_fit([1, 2, 3], [5.0, 7.0, 9.0])
    >>> round(fit["slope"], 6), round(fit["constant"], 6), round(fit["r2"], 6)
    (2.0, 3.0, 1.0)
    """
    across, up = torch.tensor(x, dtype=torch.float64), torch.tensor(y, dtype=torch.float64)
    spread = across - across.mean()
    slope = float((spread * (up - up.mean())).sum() / spread.square().sum())
    constant = float(up.mean()) - slope * float(across.mean())
    missed = (up - slope * across - constant).square().sum()
    total = (up - up.mean()).square().sum()
    return {"slope": slope, "constant": constant, "r2": float(1 - missed / total) if total > 0 else 1.0}


def arguments(description: str | None, out: str, examples: int = 10_000) -> argparse.Namespace:
    """Read --examples, --device and --out from the command line."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=examples)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cpu", "cuda"])
    parser.add_argument("--out", type=Path, default=Path(out))
    return parser.parse_args()


def write(path: Path, where: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Write the figures as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**where, "rows": rows}, indent=1) + "\n")
    print(f"Written to {path}")
