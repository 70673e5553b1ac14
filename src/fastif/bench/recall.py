"""How many of the truly strongest training examples are among the candidates: by features, by head gradient, by chance.

    python -m fastif.bench.recall [--models N] [--queries N] [--device cpu|cuda] [--out FILE.json]

Small classifiers are trained on scikit-learn's digits, each from another seed with another split. The truth is the
exact scan of all training examples; recall@10 is the share of its first ten (by |score|, among the helpful, among the
harmful) that are candidates, averaged over queries and models. With k candidates, head gradients give half of them to
each side, so that at k < 20 they cannot hold ten of both.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import fastif
from fastif.apps.recall import candidate_methods, recall_table
from fastif.bench.timing import write
from fastif.measuring.timing import environment

SHARES = (0.013, 0.127)  # of the training examples, as in the figures that others have published
TOP = 10
WAYS = ("features", "head-gradient", "random")
KINDS = {"strongest": "absolute", "helpful": "helpful", "harmful": "harmful"}
Data = tuple[Tensor, Tensor]


def mlp() -> nn.Module:
    """Return a multi-layer perceptron."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def cnn() -> nn.Module:
    """Return a small convolutional network."""
    first = [nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


SETTINGS: dict[str, Callable[[], nn.Module]] = {"MLP": mlp, "CNN": cnn}


def digits(seed: int) -> tuple[Data, Data]:
    """Return training digits (four in five) and test digits."""
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]

    images, labels = map(torch.tensor, load_digits(return_X_y=True))
    images = images.float().reshape(-1, 1, 8, 8) / 16
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    train, test = order[: len(order) * 4 // 5], order[len(order) * 4 // 5 :]
    return (images[train], labels[train]), (images[test], labels[test])


def trained(make: Callable[[], nn.Module], data: Data, seed: int, device: str) -> nn.Module:
    """Train for 40 epochs of AdamW."""
    torch.manual_seed(seed)
    module = make().to(device)
    optimizer = torch.optim.AdamW(module.parameters(), lr=3e-3, weight_decay=0.01)
    for _ in range(40):
        for batch in torch.randperm(len(data[1])).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(data[0][batch].to(device)), data[1][batch].to(device)).backward()
            optimizer.step()
    return module.eval()


def measure(name: str, seed: int, count: int, device: str) -> list[dict[str, Any]]:
    """Train one model and return the recall of every way to choose candidates."""
    train, test = digits(seed)
    module = trained(SETTINGS[name], train, seed, device)
    queries = test[0][:count], test[1][:count]
    accuracy = float((module(test[0].to(device)).argmax(dim=1).cpu() == test[1]).float().mean())
    model = fastif.TorchModel(module, loss="cross_entropy")
    scores = fastif.Explainer(model, train).scores(queries)
    methods = candidate_methods(model, fastif.Examples(train), fastif.Examples(queries), names=WAYS)
    total = len(train[1])
    ks = [round(share * total) for share in SHARES]
    table = recall_table(scores, methods, ks=ks, ms=[TOP], right=[None] * count, examples=total)
    return [
        {
            "model": name,
            "seed": seed,
            "k": k,
            "way": way,
            "accuracy": accuracy,
            **{shown: table.row(way, kind=kind, m=TOP, k=k).mean for shown, kind in KINDS.items()},
        }
        for k in ks
        for way in WAYS
    ]


def main() -> None:
    """Measure all settings, print the table and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=3, help="seeds for each kind of model")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cpu", "cuda"])
    parser.add_argument("--out", type=Path, default=Path("out/bench/recall.json"))
    arguments = parser.parse_args()
    where = environment(arguments.device)
    print(f"Recall@{TOP} of candidates, {arguments.queries} queries, {arguments.models} models each, {where}")
    print("| model | k | by | strongest (lowest - highest of the models) | helpful | harmful |")
    print("| --- | --- | --- | --- | --- | --- |")
    rows: list[dict[str, Any]] = []
    for name in SETTINGS:
        for seed in range(arguments.models):
            rows += measure(name, seed, arguments.queries, arguments.device)
        for k in sorted({row["k"] for row in rows}):
            for way in WAYS:
                print(_line(name, way, [row for row in rows if (row["model"], row["k"], row["way"]) == (name, k, way)]))
    write(arguments.out, {**where, "queries": arguments.queries}, rows)


def _line(name: str, way: str, rows: list[dict[str, Any]]) -> str:
    mean = {kind: sum(row[kind] for row in rows) / len(rows) for kind in KINDS}
    low, high = min(row["strongest"] for row in rows), max(row["strongest"] for row in rows)
    return (
        f"| {name} | {rows[0]['k']} | {way} | {mean['strongest']:.2f} ({low:.2f} - {high:.2f}) "
        f"| {mean['helpful']:.2f} | {mean['harmful']:.2f} |"
    )


if __name__ == "__main__":
    main()
