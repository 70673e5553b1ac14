"""What the demo shows, over several seeds: each has data, a training and corrections of its own.

    python -m fastif.bench.demo [--seeds 5] [--first 0] [--model minilm]

Promised are: at least 5 points more where the shortcut fails, at most 2 points less on the rest, and an audit whose
precision is at least 5 times chance. A line is printed for each seed as it is done; the status is 1 if one breaks it.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from fastif.demo.story import Setting, tell

GAIN, LOSS, TIMES = 0.05, 0.02, 5.0
COLUMNS = (
    "seed",
    "before",
    "retrain",
    "finetune-step",
    "random",
    "anchors",
    "rest before",
    "rest after",
    "original before",
    "original after",
    "audit",
    "plain loss",
    "chance",
    "seconds",
)


def numbers(story: dict[str, Any]) -> dict[str, float]:
    """Return what the table shows of one story: accuracy where the shortcut fails, on the rest, and the audit."""
    before, methods = story["correction"]["before"], story["correction"]["methods"]
    by_effect = {method["effect"]: method for method in methods}
    audit = {ranking["by"]: ranking["precision"] for ranking in story["audit"]["rankings"]}
    return {
        "before": before["failing"],
        **{effect: method["failing"] for effect, method in by_effect.items()},
        "rest before": before["rest"],
        "rest after": by_effect["retrain"]["rest"],
        "original before": before["original"],
        "original after": by_effect["retrain"]["original"],
        "audit": audit["left-out"],
        "plain loss": audit["loss"],
        "chance": story["audit"]["chance"],
    }


def broken(row: dict[str, float]) -> list[str]:
    """Return which promises do not hold."""
    kept = {
        f"gain of {GAIN:.0%}": row["retrain"] - row["before"] >= GAIN,
        f"loss of at most {LOSS:.0%}": min(
            row["rest after"] - row["rest before"], row["original after"] - row["original before"]
        )
        >= -LOSS,
        f"{TIMES:g} times chance": row["audit"] >= TIMES * row["chance"],
    }
    return [name for name, holds in kept.items() if not holds]


def main() -> int:
    """Run the seeds and print the table."""
    parser = argparse.ArgumentParser(description="The demo over several seeds.")
    parser.add_argument("--seeds", type=int, default=5, help="how many; default: %(default)s")
    parser.add_argument("--first", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--model", default="minilm", help="default: %(default)s")
    given = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {given.model}")
    print("| " + " | ".join(COLUMNS) + " |\n" + "| --- " * len(COLUMNS) + "|", flush=True)
    failed = False
    for seed in range(given.first, given.first + given.seeds):
        started = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            row = numbers(tell(Setting(base=given.model, seed=seed), Path(folder)))
        shares = " | ".join(f"{row[name]:.3f}" for name in COLUMNS[1:-1])
        print(f"| {seed} | {shares} | {time.perf_counter() - started:.0f} |", flush=True)
        for name in broken(row):
            print(f"seed {seed}: the promise of a {name} is broken", file=sys.stderr)
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
