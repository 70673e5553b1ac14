"""Finished runs as files for the explorer, written without a model; one of them hostile in every field."""

from pathlib import Path
from typing import Any

import torch

import fastif
from fastif.store import RunStore
from fastif.web.source import RunContent, read_run

EVIL = '<img src=x onerror="window.pwned=1"></script><script>window.pwned=1</script>&amp;\'"`${1}\u2028'
TEXTS = ("a long and dull film", "the film was good", "a fine story", "nothing here is good", "we saw a bad day")


def write_run(
    path: Path,
    *,
    queries: int = 12,
    train: int = 60,
    hostile: bool = False,
    error: float | None = 0.25,
    classes: tuple[str, str] = ("negative", "positive"),
) -> Path:
    """Write a run whose training file says 0 and 1 where the model says negative and positive.

    `error` is the standard error of every score, None for a solver that has none; `classes` are what the model says.
    """
    labels = ("0", "1")
    evil = EVIL if hostile else ""
    names = [f"{name}{evil}" for name in classes]
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(queries, train, generator=generator) + torch.randn(train, generator=generator)
    rows = [
        {
            "line": number + 2,
            "text": f"{TEXTS[number % 5]} {number}{evil}",
            "text_pair": f"so it goes {number}{evil}",
            "label": labels[number % 2],
            "slice": f"source {number % 3}{evil}",
        }
        for number in range(train)
    ]
    told = [
        {
            "text": f"{TEXTS[row % 5]} asked {row}{evil}",
            "text_pair": f"is it so {row}{evil}",
            "line": row + 2,
            "slice": f"slice {row % 3}{evil}",
            "label": names[row % 2],
            "predicted": names[(row + (row % 4 == 0)) % 2],
            "confidence": 0.5 + row / (2 * queries),
            "right": row % 4 != 0,
            "explained": "the label",
            "target": names[row % 2],
            "measure": "loss",
            **_listed(values[row], names, error),
        }
        for row in range(queries)
    ]
    explanation = {
        "model": f"model{evil}",
        "influence_through": "10 of 20 parameters: the head",
        "train": {"source": f"train.csv{evil}", "examples": train, "sha256": "ab" * 32},
        "queries": told,
        "provenance": {
            "curvature": "gauss-newton",
            "method": f"exact, 10 x 10 matrix{evil}",
            "damping": 0.125,
            "damping_chosen_by": "automatic",
            "residuals": [1e-6] * queries,
            "converged": [True] * queries,
            "candidates": "all",
        },
    }
    return store(path, values, rows, explanation)


def _listed(values: torch.Tensor, names: list[str], error: float | None) -> dict[str, Any]:
    order = values.argsort().tolist()
    return {
        kind: [
            {
                "index": index,
                "label": names[index % 2],
                "score": float(values[index]),
                "error": error,
                "own_loss": 1.5,
                "near": True,
            }
            for index in indices
        ]
        for kind, indices in (("helpful", order[:5]), ("harmful", order[::-1][:5]))
    }


def store(path: Path, values: torch.Tensor, rows: list[dict[str, Any]], explanation: dict[str, Any]) -> Path:
    """Write a run of these parts."""
    scores = fastif.Scores(values, torch.arange(len(rows)).expand(values.shape))
    request = {"command": "explain", "arguments": {"model": "model", "train": "train.csv"}, "read": {}}
    with RunStore.begin(path, request) as opened:
        scores.save(path / "scores")
        opened.note("scores.safetensors")
        opened.note("scores.json")
        opened.add_rows("train.jsonl", rows)
        opened.add_json("explanation.json", explanation)
        opened.finish()
    return path


def content(path: Path, **options: Any) -> RunContent:
    """Write such a run and read it."""
    return read_run(write_run(path, **options))
