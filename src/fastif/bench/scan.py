"""How fast a training set is scored for one query, against one backward pass for each example.

    python -m fastif.bench.scan [--examples N] [--device cpu|cuda] [--out FILE.json]

Both ways compute the same numbers, s . grad of the loss of every example; the table shows how far they differ. The
baseline takes time in proportion to the number of examples, so that it is timed on a sample of them.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import fastif
from fastif import vectors
from fastif.bench.timing import arguments, best_time, environment, write
from fastif.scoring import scan

BASELINE_SAMPLE = 200


class SmallTransformer(nn.Module):
    """Two encoder layers over sequences of 32 tokens, with the mean of the states classified."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(64, nhead=4, dim_feedforward=128, batch_first=True)
        self.embed = nn.Embedding(1000, 64)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.head = nn.Linear(64, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of three classes."""
        logits: Tensor = self.head(self.encoder(self.embed(tokens)).mean(dim=1))
        return logits


def mlp() -> nn.Module:
    """Return a multi-layer perceptron on 64 features."""
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))


def cnn() -> nn.Module:
    """Return a convolutional network on 8 x 8 images."""
    convolutions = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*convolutions, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 10))


SETTINGS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Tensor], int]] = {
    "MLP": (mlp, lambda n: torch.randn(n, 64), 10),
    "CNN": (cnn, lambda n: torch.randn(n, 1, 8, 8), 10),
    "transformer": (SmallTransformer, lambda n: torch.randint(0, 1000, (n, 32)), 3),
}


def backward_loop(module: nn.Module, inputs: Tensor, targets: Tensor, direction: dict[str, Tensor]) -> Tensor:
    """Score one example at a time: a backward pass, then the product with the direction."""
    parameters = dict(module.named_parameters())
    scores = []
    for x, y in zip(inputs, targets, strict=True):
        loss = nn.functional.cross_entropy(module(x[None]), y[None])
        slopes = torch.autograd.grad(loss, list(parameters.values()))
        scores.append(sum((s * direction[name]).sum() for s, name in zip(slopes, parameters, strict=True)))
    return torch.stack(scores)  # type: ignore[arg-type]


def measure(name: str, examples: int, device: str) -> dict[str, Any]:
    """Time both ways on one setting."""
    torch.manual_seed(0)
    make, draw, classes = SETTINGS[name]
    module = make().to(device).eval()
    inputs, targets = draw(examples).to(device), torch.randint(0, classes, (examples,)).to(device)
    model = fastif.TorchModel(module, loss="cross_entropy")
    block = vectors.random(model.parameters, 1, seed=0)
    direction = {key: tensor[0] for key, tensor in block.items()}
    data = fastif.Examples((inputs, targets))
    sample = slice(0, min(examples, BASELINE_SAMPLE))
    backward_loop(module, inputs[:5], targets[:5], direction)
    scan(model, data, block, ids=torch.arange(min(examples, 256)))
    slow, expected = best_time(lambda: backward_loop(module, inputs[sample], targets[sample], direction), device)
    fast, values = best_time(lambda: scan(model, data, block), device)
    loop = slow * examples / (sample.stop - sample.start)
    difference = (values[0, sample].to(device) - expected).norm() / expected.norm()
    return {
        "setting": name,
        "parameters": vectors.size(model.parameters),
        "examples": examples,
        "backward_loop_s": loop,
        "backward_loop_timed_on": sample.stop,
        "scan_s": fast,
        "ratio": loop / fast,
        "relative_difference": float(difference),
    }


def main() -> None:
    """Run all settings, print the table and write it as JSON."""
    chosen = arguments(__doc__, "out/bench/scan.json")
    where = environment(chosen.device)
    print(f"Scores of {chosen.examples:,} examples for one query, {where}")
    print("| model | parameters | backward loop (extrapolated) | forward-mode scan | ratio | difference |")
    print("| --- | --- | --- | --- | --- | --- |")
    rows = []
    for name in SETTINGS:
        row = measure(name, chosen.examples, chosen.device)
        rows.append(row)
        print(
            f"| {name} | {row['parameters']:,} | {row['backward_loop_s']:.2f} s | {row['scan_s']:.3f} s "
            f"| {row['ratio']:.0f}x | {row['relative_difference']:.1e} |"
        )
    write(chosen.out, where, rows)


if __name__ == "__main__":
    main()
