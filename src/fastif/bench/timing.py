"""What all benchmarks share: how time is taken, what the figures depend on, where they are written."""

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import fastif

REPEATS = 3


def best_time(function: Callable[[], Tensor], device: str, repeats: int = REPEATS) -> tuple[float, Tensor]:
    """Return the shortest of a few times, and the result."""
    times = []
    for _ in range(repeats):
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
    return {"hardware": hardware, "threads": torch.get_num_threads(), **versions}


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
