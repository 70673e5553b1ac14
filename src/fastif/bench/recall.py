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
from fastif import metrics, ranking
from fastif.bench.timing import write
from fastif.measuring.timing import environment

SHARES = (0.013, 0.127)  # of the training examples, as in the figures that others have published
TOP = 10
WAYS: tuple[Any, ...] = ("features", "head-gradient", "random")
KINDS = ("strongest", "helpful", "harmful")
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


def truth(values: Tensor) -> dict[str, list[Tensor]]:
    """Return the first ten of each kind for each query, by the exact scores of all training examples."""
    ids = torch.arange(values.shape[1])
    return {
        "strongest": [ranking.harmful(row.abs(), ids, TOP).ids for row in values],
        "helpful": [ranking.helpful(row, ids, TOP).ids for row in values],
        "harmful": [ranking.harmful(row, ids, TOP).ids for row in values],
    }


def candidates(model: fastif.TorchModel, train: Data, queries: Data, way: Any, k: int) -> Tensor:
    """Return the candidates of each query, (Q, k)."""
    if way == "random":
        generator = torch.Generator().manual_seed(0)
        return torch.stack([torch.randperm(len(train[1]), generator=generator)[:k] for _ in queries[1]])
    placed = model.place(fastif.Examples(queries).batch(range(len(queries[1]))))
    return fastif.Nearest(k, by=way).prepare(model, train).select([placed], model.losses).ids(len(queries[1]))


def measure(name: str, seed: int, count: int, device: str) -> list[dict[str, Any]]:
    """Train one model and return the recall of every way to choose candidates."""
    train, test = digits(seed)
    module = trained(SETTINGS[name], train, seed, device)
    queries = test[0][:count], test[1][:count]
    accuracy = float((module(test[0].to(device)).argmax(dim=1).cpu() == test[1]).float().mean())
    model = fastif.TorchModel(module, loss="cross_entropy")
    explainer = fastif.Explainer(model, train)
    strongest = truth(explainer.scores(queries).values)
    rows = []
    for share in SHARES:
        k = round(share * len(train[1]))
        for way in WAYS:
            found = candidates(model, train, queries, way, k)
            recalls = {
                kind: [metrics.recall_at(row, true) for row, true in zip(found, strongest[kind], strict=True)]
                for kind in KINDS
            }
            means = {kind: sum(each) / len(each) for kind, each in recalls.items()}
            rows.append({"model": name, "seed": seed, "k": k, "way": way, "accuracy": accuracy, **means})
    return rows


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
