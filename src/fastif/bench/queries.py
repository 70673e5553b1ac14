"""How fast a training set is scored for many queries, against two ways that need no library.

    python -m fastif.bench.queries [--examples N] [--device cpu|cuda] [--out FILE.json]

The naive way runs, for every query, one backward pass for each example; the batched way makes the gradients of a batch
with vmap(grad) and multiplies them with all queries. Both take time in proportion to the examples (the naive also to
the queries), so that they are timed on a sample and extrapolated; fastif is timed on all examples. All three compute
the same numbers: the table shows how far they differ.
"""

from typing import Any

import torch
from torch import Tensor, nn

import fastif
from fastif import vectors
from fastif.bench.scan import BASELINE_SAMPLE, SETTINGS, backward_loop
from fastif.bench.timing import arguments, best_time, environment, write
from fastif.derivatives import gradients
from fastif.scoring import choose, scan
from fastif.vectors import Block

QUERIES = (1, 16, 128)
BATCHED_SAMPLE = 1024
BATCH = 256


def batched_gradients(model: fastif.TorchModel, data: fastif.Examples, directions: Block, examples: int) -> Tensor:
    """Score by the gradients of every batch, vmap(grad), times the directions."""
    parts = []
    for batch in data.batches(BATCH, torch.arange(examples)):
        slopes = gradients(model, model.place(batch))
        parts.append(sum(directions[name].flatten(1) @ slope.flatten(1).T for name, slope in slopes.items()))
    return torch.cat(parts, dim=1)  # type: ignore[arg-type]


def measure(name: str, examples: int, device: str) -> list[dict[str, Any]]:
    """Time the three ways on one setting, for each number of queries."""
    torch.manual_seed(0)
    make, draw, classes = SETTINGS[name]
    module: nn.Module = make().to(device).eval()
    inputs, targets = draw(examples).to(device), torch.randint(0, classes, (examples,)).to(device)
    model = fastif.TorchModel(module, loss="cross_entropy")
    data = fastif.Examples((inputs, targets))
    model.check(model.place(data.batch(range(min(examples, 8)))))
    few, more = min(examples, BASELINE_SAMPLE), min(examples, BATCHED_SAMPLE)
    direction = vectors.random(model.parameters, 1, seed=1)
    single = {key: tensor[0] for key, tensor in direction.items()}
    backward_loop(module, inputs[:5], targets[:5], single)  # torch loads what it needs
    one, expected = best_time(lambda: backward_loop(module, inputs[:few], targets[:few], single), device)
    rows = []
    for queries in QUERIES:
        block = vectors.random(model.parameters, queries, seed=0)
        block = vectors.join([direction, vectors.select(block, slice(1, None))])
        scan(model, data, block, ids=torch.arange(min(examples, BATCH)))
        batched, _ = best_time(lambda b=block: batched_gradients(model, data, b, more), device)  # type: ignore[misc]
        fast, values = best_time(lambda b=block: scan(model, data, b), device)  # type: ignore[misc]
        naive_s, batched_s = one * queries * examples / few, batched * examples / more
        rows.append(
            {
                "setting": name,
                "parameters": vectors.size(model.parameters),
                "examples": examples,
                "queries": queries,
                "naive_s": naive_s,
                "naive_timed_on": f"{few} examples, one query",
                "batched_gradients_s": batched_s,
                "batched_gradients_timed_on": f"{more} examples, all queries",
                "scan_s": fast,
                "way": choose(model, data, block).note,
                "ratio_to_naive": naive_s / fast,
                "ratio_to_batched": batched_s / fast,
                "relative_difference": float((values[0, :few].to(device) - expected).norm() / expected.norm()),
            }
        )
    return rows


def main() -> None:
    """Run all settings, print the table and write it as JSON."""
    chosen = arguments(__doc__, "out/bench/queries.json")
    where = environment(chosen.device)
    print(f"Scores of {chosen.examples:,} examples for many queries, {where}")
    print(
        f"naive: timed on {BASELINE_SAMPLE} examples and one query; batched gradients: on {BATCHED_SAMPLE} examples; "
        "both extrapolated"
    )
    print("| model | queries | naive | batched gradients | fastif | against naive | against batched | difference |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    rows = []
    for name in SETTINGS:
        for row in measure(name, chosen.examples, chosen.device):
            rows.append(row)
            print(
                f"| {name} | {row['queries']} | {row['naive_s']:.1f} s | {row['batched_gradients_s']:.2f} s "
                f"| {row['scan_s']:.3f} s | {row['ratio_to_naive']:,.0f}x | {row['ratio_to_batched']:.1f}x "
                f"| {row['relative_difference']:.1e} |",
                flush=True,
            )
    write(chosen.out, where, rows)


if __name__ == "__main__":
    main()
