"""How long it takes to train many models: all of them together in one batch, one after another, and each by itself.

    python -m fastif.bench.retraining [--cases mlp,cnn,tiny,minilm-sst2] [--models 16] [--device cpu|cuda] [--out FILE]

"together" and "apart" are the two ways of `fastif.apps.stack`, both on the stored states of frozen layers; "alone" is a
plain training of one model through all its layers, as one would write it. Time is that of one step of one model,
optimizer included.
"""

import argparse
from pathlib import Path
from typing import Any

import torch

from fastif.apps.stack import StackTraining, goes_together
from fastif.apps.training_recipe import TrainingRecipe
from fastif.bench.cases import Wanted, make_case
from fastif.bench.timing import write
from fastif.data import Examples
from fastif.measuring.case import Case
from fastif.measuring.timing import best_time, environment
from fastif.precision import matmuls
from fastif.prefix import PrefixCache
from fastif.shuffling import bucketed

STEPS = 4


def measure(name: str, models: int, batch_size: int, device: str) -> dict[str, Any]:
    """Return the milliseconds of a step of one model in each way."""
    total = STEPS * batch_size
    case = make_case(name, Wanted(examples=total, device=device))
    case.model.check(case.model.place(case.train.batch(range(4))))
    view = PrefixCache().view(case.model, case.train)
    recipe = TrainingRecipe(epochs=1, batch_size=batch_size, learning_rate=1e-5)
    weights = torch.ones(models, len(case.train))
    row: dict[str, Any] = {"case": name, "models": models, "batch_size": batch_size, **case.as_json()}
    with matmuls("tf32", case.model.device):
        for way, together in (("together", True), ("apart", False)):
            training = StackTraining(case.model, view, recipe, together)
            training.fit(weights[:1], case.model.parameters)  # states, and what torch does once
            took, _ = best_time(lambda it=training: it.fit(weights, case.model.parameters), device)  # type: ignore[misc]
            row[f"{way}_ms"] = 1e3 * took / (models * STEPS)
        took, _ = best_time(lambda: _alone(case, case.train, recipe), device)
        row["alone_ms"] = 1e3 * took / STEPS
    return {**row, "chosen": "together" if goes_together(case.model, batch_size) else "apart"}


def _alone(case: Case, train: Examples, recipe: TrainingRecipe) -> None:
    """Train one model as one would write it down: every layer in every step, torch's own optimizer."""
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in case.model.parameters.items()}
    optimizer = torch.optim.AdamW(leaves.values(), lr=recipe.learning_rate)
    for ids in bucketed(train.lengths, len(train), recipe.batch_size, seed=0, epoch=1):
        batch = case.model.place(train.batch(ids))
        optimizer.zero_grad()
        case.model.losses(case.model.outputs(leaves, batch.inputs), batch.targets).mean().backward()
        optimizer.step()


def main() -> None:
    """Measure, print a table and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cpu", "cuda"])
    parser.add_argument("--cases", default="mlp,cnn,transformer,tiny,minilm-sst2")
    parser.add_argument("--models", type=int, default=16)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--out", type=Path, default=Path("out/bench/retraining.json"))
    given = parser.parse_args()
    where = environment(given.device)
    print(f"Milliseconds of one step of one model, {given.models} models, batches of {given.batch_size}, {where}")
    print("| case | trained parameters | together | apart | alone | chosen |")
    print("| --- | --- | --- | --- | --- | --- |")
    rows = []
    for name in given.cases.split(","):
        row = measure(name, given.models, given.batch_size, given.device)
        rows.append(row)
        times = " | ".join(f"{row[f'{way}_ms']:.2f}" for way in ("together", "apart", "alone"))
        print(f"| {name} | {row['parameters']:,} | {times} | {row['chosen']} |", flush=True)
    write(given.out, where, rows)


if __name__ == "__main__":
    main()
