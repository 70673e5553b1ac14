"""Small models of plain torch on random data, for benchmarks of what needs no text: neither changes the time."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


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
