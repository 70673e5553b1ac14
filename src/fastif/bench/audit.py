"""How well audits find labels that were planted wrong: by plain loss, by self-influence, by the loss when left out.

    python -m fastif.bench.audit [--seeds N] [--share 0.05] [--out FILE.json]

Networks are trained on scikit-learn's digits with some labels changed: to any other class ("random"), or to the class
that a network trained on the true labels finds second most likely ("alike", as people confuse them). Training is short,
or so long that wrong labels are learned by heart. Precision is of the top k, with k the number of planted labels;
"suggested" is the share of planted labels for which the suggested label is the true one.
"""

import argparse
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import fastif
from fastif import metrics
from fastif.apps.audit import RANKINGS, audit
from fastif.bench.recall import SETTINGS, digits
from fastif.bench.timing import write
from fastif.measuring.timing import environment

EPOCHS = {"short": 20, "long": 200}
KINDS = ("random", "alike")


def fit(name: str, images: Tensor, labels: Tensor, *, epochs: int, seed: int) -> nn.Module:
    """Train by AdamW."""
    torch.manual_seed(seed)
    module = SETTINGS[name]()
    optimizer = torch.optim.AdamW(module.parameters(), lr=3e-3, weight_decay=0.01)
    for _ in range(epochs):
        for batch in torch.randperm(len(labels)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(images[batch]), labels[batch]).backward()
            optimizer.step()
    return module.eval()


def plant(images: Tensor, truth: Tensor, kind: str, *, share: float, seed: int) -> Tensor:
    """Return the labels with some of them wrong."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(truth), generator=generator)[: round(share * len(truth))]
    labels = truth.clone()
    if kind == "random":
        labels[chosen] = (truth[chosen] + torch.randint(1, 10, chosen.shape, generator=generator)) % 10
        return labels
    outputs = fit("MLP", images, truth, epochs=EPOCHS["short"], seed=seed)(images[chosen])
    labels[chosen] = outputs.detach().scatter(1, truth[chosen][:, None], -torch.inf).argmax(dim=1)
    return labels


def measure(name: str, kind: str, length: str, *, share: float, seed: int) -> dict[str, Any]:
    """Train one network on labels with errors, and return how well each ranking finds them."""
    (images, truth), _ = digits(seed)
    labels = plant(images, truth, kind, share=share, seed=seed)
    wrong = labels != truth
    module = fit(name, images, labels, epochs=EPOCHS[length], seed=seed)
    found = audit(fastif.Explainer(fastif.TorchModel(module, loss="cross_entropy"), (images, labels), progress=False))
    assert found.predicted is not None
    assert found.suggested is not None
    count = int(wrong.sum())
    row: dict[str, Any] = {"model": name, "errors": kind, "training": length, "seed": seed, "planted": count}
    for by in RANKINGS:
        row[f"{by} precision"] = float(wrong[found.ranking(by)[:count]].double().mean())
        row[f"{by} AUC"] = metrics.auc(found.values(by), wrong)
    row["learned by heart"] = float((found.predicted[wrong] == labels[wrong]).double().mean())
    row["suggested"] = float((found.suggested[wrong] == truth[wrong]).double().mean())
    return row


def main() -> None:
    """Measure all settings, print the table and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--share", type=float, default=0.05, help="of the labels that are changed")
    parser.add_argument("--out", type=Path, default=Path("out/bench/audit.json"))
    arguments = parser.parse_args()
    where = environment("cpu")
    print(f"{arguments.share:.0%} of the labels planted wrong, {arguments.seeds} seeds each, {where}")
    print("Precision of the top k / AUC, mean over seeds (lowest precision - highest)\n")
    print(f"| model | errors | training | learned by heart | {' | '.join(RANKINGS)} | suggested |")
    print("| --- " * (5 + len(RANKINGS)) + "|")
    rows: list[dict[str, Any]] = []
    for setting in product(SETTINGS, KINDS, EPOCHS):
        some = [measure(*setting, share=arguments.share, seed=seed) for seed in range(arguments.seeds)]
        print(_line(some), flush=True)
        rows += some
    print(f"\n{compared(rows)}")
    write(arguments.out, {**where, "share": arguments.share}, rows)


def compared(rows: list[dict[str, Any]]) -> str:
    """Return how the rankings compare with the plain loss, run by run."""
    words = []
    for by in RANKINGS:
        gains = [row[f"{by} precision"] - row["loss precision"] for row in rows]
        better, worse = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
        if by != "loss":
            mean = sum(gains) / len(gains)
            words.append(f"{by}: {mean:+.3f} in precision, better in {better} and worse in {worse} of {len(rows)}")
    return f"Against the plain loss: {'; '.join(words)}."


def _line(rows: list[dict[str, Any]]) -> str:
    def mean(name: str) -> float:
        return float(sum(row[name] for row in rows) / len(rows))

    cells = [rows[0][name] for name in ("model", "errors", "training")] + [f"{mean('learned by heart'):.2f}"]
    for by in RANKINGS:
        each = [row[f"{by} precision"] for row in rows]
        cells.append(f"{mean(f'{by} precision'):.3f} / {mean(f'{by} AUC'):.3f} ({min(each):.2f} - {max(each):.2f})")
    cells.append(f"{mean('suggested'):.2f}")
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
