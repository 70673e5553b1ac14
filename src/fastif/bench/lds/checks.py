"""Four more settings, made after the first four had been measured, to see whether a rule holds beyond them.

Few examples and more parameters than the rank, training to the end, and two with many examples for their parameters.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn

from fastif.bench.lds.settings import SETTINGS, Pair, Recipe, Regressor, Setting, digits, sequences, split


class BagModel(nn.Module):
    """Embeddings of tokens, their mean, one hidden layer, three classes: 1,027 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(24, 16)
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 3))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of three classes."""
        logits: Tensor = self.layers(self.embed(tokens).mean(dim=-2))
        return logits


def wide_mlp() -> nn.Module:
    """Return a perceptron with one hidden layer, 4,810 parameters."""
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def friedman() -> tuple[Pair, Pair]:
    """Return 3,000 points of Friedman's regression problem with noise, standardised, and 100 queries."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(3100, 10, generator=generator)
    signal = 10 * torch.sin(torch.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    y = signal + torch.randn(3100, generator=generator)
    return split((x - 0.5) * 12**0.5, (y - y.mean()) / y.std(), 3000)


CHECKS = {
    setting.name: setting
    for setting in (
        Setting(
            "digits-few",
            wide_mlp,
            "cross_entropy",
            lambda: digits(images=False, train=200),
            Recipe("sgd", lr=0.1, epochs=60, batch_size=50),
        ),
        replace(SETTINGS["digits-mlp"], name="digits-long", recipe=Recipe("sgd", lr=0.1, epochs=150, batch_size=50)),
        Setting(
            "friedman-mlp",
            lambda: Regressor(10),
            "mse_loss",
            friedman,
            Recipe("adam", lr=5e-3, epochs=15, batch_size=100),
        ),
        Setting(
            "bag-of-tokens",
            BagModel,
            "cross_entropy",
            lambda: sequences(train=3000),
            Recipe("adam", lr=1e-2, epochs=10, batch_size=100),
        ),
    )
}
