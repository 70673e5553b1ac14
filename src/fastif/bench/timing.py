"""What benchmarks share beside `fastif.measuring`: their command in words, a fitted line, where figures are written."""

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch


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
