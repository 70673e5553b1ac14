"""How time is taken, and what figures depend on: hardware, versions, the commit of the code."""

import os
import platform
import subprocess
import time
from collections.abc import Callable
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
