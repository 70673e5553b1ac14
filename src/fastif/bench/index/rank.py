"""What each process of `fastif bench index` does: its part of the index, and of the exact search beside it.

Started by torchrun, or alone as one process. Writes JSON to the file that it is told of.
"""

import contextlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fastif.apps.checkup.machine import peak_memory
from fastif.bench.index.mixture import CHUNK, Mixture
from fastif.candidates import Features, PartHolder, Parts
from fastif.candidates.parts import CLOSENESS, IDS, ROWS, merged
from fastif.distributed import Duties, Leader, Team, work
from fastif.integrations.faiss_shards import FaissShards
from fastif.keeping import Tensors
from fastif.metrics import recall_at
from fastif.shares import Share

TRUE, TIMED = (10, 100, 1000), 1000
Ask = Callable[..., list[Tensors]]


def main(asked: dict[str, Any]) -> None:
    """Do this process's share, and if it leads, write what came out."""
    torch.set_num_threads(1)
    place = Path(asked["place"])
    mixture = Mixture.load(place / "mixture.safetensors")
    index = FaissShards(place / "index", asked["factory"], probes=asked["probes"], training=asked["training"])
    with Team.joined_if_started(torch.device("cpu")) as team:
        rank, ranks = (0, 1) if team is None else (team.rank, team.ranks)
        ids = Share(rank, ranks, asked["points"]).of(torch.arange(asked["points"]))
        holder = PartHolder(index, ids, lambda some: Features(_points(mixture, some)), name=f"part-{rank}-of-{ranks}")
        duties: dict[str, Callable[..., Tensors]] = {
            "index": holder.build,
            "search": holder.search,
            "exact": lambda sent, k: _exact(mixture, ids, sent[ROWS], k),
            "memory": lambda sent: {"bytes": torch.tensor([peak_memory()])},
        }
        if team is None:
            _lead(asked, index, holder, lambda what, sent, **given: [duties[what](sent, **given)])
            return
        every: Any = Duties(None, asked["points"], 0, {}, contextlib.nullcontext, duties)  # type: ignore[arg-type]
        if not team.leads:
            work(team, every)
            return
        leader = Leader(team, asked["points"])
        with leader.leading(every):
            _lead(asked, index, holder, leader.of_each)


def _lead(asked: dict[str, Any], index: FaissShards, holder: PartHolder, ask: Ask) -> None:
    """Build, search, compare; write the figures."""
    mixture = Mixture.load(Path(asked["place"]) / "mixture.safetensors")
    queries = Features(mixture.chunk(2**31, asked["queries"]))  # a chunk that no index holds
    learn_s, _ = _timed(lambda: index.learn(holder.sample()))
    build_s, parts = _timed(lambda: Parts(ask, holder, index))
    search_s, _ = _timed(lambda: parts.search(queries, TIMED))
    found = {taken: parts.search(queries, taken) for taken in asked["candidates"]}
    peaks = [int(each["bytes"]) for each in ask("memory", {})]
    exact_s, answers = _timed(lambda: ask("exact", {ROWS: queries.values}, k=max(TRUE)))
    truth = merged([each[CLOSENESS] for each in answers], [each[IDS] for each in answers], max(TRUE))
    rows = [
        {"candidates": taken, "of": of, "recall": _recall(ids, truth[:, :of])}
        for taken, ids in found.items()
        for of in TRUE
        if of <= taken
    ]
    files = (Path(asked["place"]) / "index").rglob("*.index")
    figures = {"learn_s": learn_s, "build_s": build_s, "search_s": search_s, "exact_s": exact_s, "peak_bytes": peaks}
    result = {**figures, "index_bytes": sum(file.stat().st_size for file in files), "rows": rows}
    Path(asked["out"]).write_text(json.dumps(result), encoding="utf-8")


def _points(mixture: Mixture, ids: Tensor) -> Tensor:
    """Return points by their numbers, which come in order."""
    numbers = ids // CHUNK
    return torch.cat([mixture.chunk(n)[ids[numbers == n] - n * CHUNK] for n in numbers.unique().tolist()])


def _exact(mixture: Mixture, ids: Tensor, rows: Tensor, k: int) -> Tensors:
    """Return the k nearest of this process's points, each of them compared."""
    near = torch.full((len(rows), k), -torch.inf)
    numbers = torch.full((len(rows), k), -1)
    for some in ids.split(CHUNK):
        closeness = Features(rows).closeness(Features(_points(mixture, some)))
        together = torch.cat([near, closeness], dim=1)
        best = together.topk(k, dim=1)
        near, numbers = best.values, torch.cat([numbers, some.expand(len(rows), -1)], dim=1).gather(1, best.indices)
    return {CLOSENESS: near, IDS: numbers}


def _recall(found: Tensor, truth: Tensor) -> float:
    return sum(recall_at(mine, true) for mine, true in zip(found, truth, strict=True)) / len(truth)


def _timed(function: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = function()
    return time.perf_counter() - began, result


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
