"""Finished runs as files, written without a model: what the commands that read runs need of them, and no more."""

import inspect
from pathlib import Path
from typing import Any

import torch

import fastif
from fastif.cli.explain import NOT_RECORDED, explain
from fastif.store import RunStore

GIVEN = {"model": "model", "train": "train.csv", "text": "text", "label": "label"}
UNLESS_GIVEN = {name: parameter.default for name, parameter in inspect.signature(explain).parameters.items()}
ARGUMENTS = {name: value for name, value in (UNLESS_GIVEN | GIVEN).items() if name not in NOT_RECORDED}


def store_run(
    path: Path,
    slices: list[str | None],
    *,
    train: list[dict[str, Any]] | None = None,
    counts: dict[str, dict[str, int]] | None = None,
    arguments: dict[str, Any] | None = None,
    values: torch.Tensor | None = None,
) -> Path:
    """Write a run with these slices of its queries; of a run of old where they are all None."""
    rows = train or [{"line": number + 2, "text": f"text {number}", "label": "ab"[number % 2]} for number in range(30)]
    if values is None:
        generator = torch.Generator().manual_seed(0)
        values = torch.randn(len(slices), len(rows), generator=generator) + torch.randn(len(rows), generator=generator)
    scores = fastif.Scores(values, torch.arange(len(rows)).expand(values.shape))
    old = all(name is None for name in slices)
    queries = [{"text": f"query {row}"} | ({} if old else {"slice": name}) for row, name in enumerate(slices)]
    request = {"command": "explain", "arguments": {**ARGUMENTS, **(arguments or {})}, "read": {}}
    with RunStore.begin(path, request) as store:
        scores.save(path / "scores")
        store.note("scores.safetensors")
        store.note("scores.json")
        store.add_rows("train.jsonl", rows)
        store.add_json("explanation.json", {"queries": queries} | ({} if old else {"query_slices": counts}))
        store.finish()
    return path
