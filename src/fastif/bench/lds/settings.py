"""The models and data on which the damping is measured: digits (MLP, CNN), a regression, a sequence model.

All are small enough that the curvature is solved exactly and hundreds of models are retrained on a laptop. The data
comes with scikit-learn or is generated here. The recipes were fixed by held-out loss, before any damping was tried.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Recipe:
    """How a model is trained: minibatches, a learning rate that falls linearly to zero, no weight decay."""

    optimizer: Literal["sgd", "adam"]
    lr: float
    epochs: int
    batch_size: int
    momentum: float = 0.9  # of SGD

    def steps(self, examples: int) -> int:
        """Return the number of updates."""
        return self.epochs * -(-examples // self.batch_size)

    def learning_time(self, examples: int) -> float | None:
        """Return the sum of all learning rates, as gradient flow counts time; None for Adam, which has no such time."""
        if self.optimizer != "sgd":
            return None
        return self.lr / (1 - self.momentum) * self.steps(examples) / 2


@dataclass(frozen=True)
class Setting:
    """A model, its data and how it is trained; `data` gives training examples and queries, disjoint."""

    name: str
    module: Callable[[], nn.Module]
    loss: Literal["cross_entropy", "mse_loss"]
    data: Callable[[], tuple[Pair, Pair]]
    recipe: Recipe


class Regressor(nn.Module):
    """A perceptron with two hidden layers and one output, shape (batch,)."""

    def __init__(self, features: int) -> None:
        super().__init__()
        widths = [nn.Linear(features, 32), nn.GELU(), nn.Linear(32, 16), nn.GELU(), nn.Linear(16, 1)]
        self.layers = nn.Sequential(*widths)

    def forward(self, x: Tensor) -> Tensor:
        """Return one number an example."""
        value: Tensor = self.layers(x).squeeze(-1)
        return value


class SequenceModel(nn.Module):
    """A transformer block of one head over 12 tokens, mean-pooled, three classes."""

    def __init__(self, vocabulary: int = 24, length: int = 12, width: int = 12) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.position = nn.Parameter(0.1 * torch.randn(length, width))
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.mixer = nn.Linear(width, 3 * width)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.head = nn.Linear(width, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of three classes."""
        states = self.embed(tokens) + self.position
        query, key, value = self.mixer(self.norms[0](states)).chunk(3, dim=-1)
        weights = torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, dim=-1)
        states = states + weights @ value
        states = states + self.feed(self.norms[1](states))
        logits: Tensor = self.head(states.mean(dim=-2))
        return logits


def digits_mlp() -> nn.Module:
    """Return a perceptron with one hidden layer, 2,410 parameters."""
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def digits_cnn() -> nn.Module:
    """Return two convolutions and a linear layer, 1,898 parameters."""
    first = [nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(64, 10))


def digits(*, images: bool, train: int = 1000) -> tuple[Pair, Pair]:
    """Return some of scikit-learn's handwritten digits and 100 queries."""
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]

    pixels, labels = load_digits(return_X_y=True)
    x = torch.tensor(pixels, dtype=torch.float32) / 16
    return split(x.reshape(-1, 1, 8, 8) if images else x, torch.tensor(labels), train)


def diabetes() -> tuple[Pair, Pair]:
    """Return 342 of scikit-learn's patients and the other 100 as queries, all columns standardised."""
    from sklearn.datasets import load_diabetes

    features, progression = load_diabetes(return_X_y=True)
    x, y = torch.tensor(features, dtype=torch.float32), torch.tensor(progression, dtype=torch.float32)
    return split((x - x.mean(0)) / x.std(0), (y - y.mean()) / y.std(), 342)


def sequences(train: int = 1000) -> tuple[Pair, Pair]:
    """Return generated token sequences and 100 queries.

    Tokens 0 and 1 vote for class 0, tokens 2 and 3 for class 1, a tie is class 2; one label in twenty is random.
    """
    generator = torch.Generator().manual_seed(0)
    shape = (train + 100, 12)
    tokens = torch.randint(0, 24, shape, generator=generator)
    voting = torch.rand(shape, generator=generator) < 0.3
    tokens = torch.where(voting, torch.randint(0, 5, shape, generator=generator), tokens)
    votes = (tokens < 2).sum(dim=1) - ((tokens == 2) | (tokens == 3)).sum(dim=1)
    labels = torch.where(votes > 0, 0, torch.where(votes < 0, 1, 2))
    noisy = torch.rand(len(labels), generator=generator) < 0.05
    labels = torch.where(noisy, torch.randint(0, 3, labels.shape, generator=generator), labels)
    return split(tokens, labels, train)


def split(x: Tensor, y: Tensor, train: int, queries: int = 100) -> tuple[Pair, Pair]:
    """Return the first examples of a fixed shuffle as training data, the next as queries."""
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    chosen, asked = order[:train], order[train : train + queries]
    return (x[chosen], y[chosen]), (x[asked], y[asked])


SETTINGS = {
    setting.name: setting
    for setting in (
        Setting(
            "digits-mlp",
            digits_mlp,
            "cross_entropy",
            lambda: digits(images=False),
            Recipe("sgd", lr=0.1, epochs=30, batch_size=50),
        ),
        Setting(
            "digits-cnn",
            digits_cnn,
            "cross_entropy",
            lambda: digits(images=True),
            Recipe("adam", lr=5e-3, epochs=30, batch_size=50),
        ),
        Setting(
            "diabetes-mlp",
            lambda: Regressor(10),
            "mse_loss",
            diabetes,
            Recipe("sgd", lr=0.02, epochs=20, batch_size=38),
        ),
        Setting(
            "sequences",
            SequenceModel,
            "cross_entropy",
            sequences,
            Recipe("adam", lr=1e-2, epochs=15, batch_size=50),
        ),
    )
}
