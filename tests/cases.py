"""Small models with data on which the engine is compared with the oracles.

Every factory takes `seed` and `dtype`. A model is made and briefly trained in float64 and only then converted, so that
the cases of two dtypes are the same model up to rounding. All are left in TRAIN mode on purpose, many with dropout or
batch-norm: the library must act as in eval by itself, and must put the mode back.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.oracles import losses, parameter_names

TRAIN_SIZE = 24
QUERY_SIZE = 4


@dataclass(frozen=True)
class Case:
    """A trained module, its loss (a name in `F`, or a callable) and its data; `trainable` is searched in the names."""

    name: str
    module: nn.Module
    loss: str | Callable[[Tensor, Tensor], Tensor]
    train: tuple[Tensor, ...]
    queries: tuple[Tensor, ...]
    trainable: str | None = None

    @property
    def names(self) -> list[str]:
        """The parameters that influence is computed over, in the order of the module."""
        return parameter_names(self.module, self.trainable)


Factory = Callable[..., Case]


# --- from a module and data to a case ---------------------------------------------------------------------------------


def build(
    name: str,
    make: Callable[[], tuple[nn.Module, tuple[Tensor, ...]]],
    loss: str | Callable[[Tensor, Tensor], Tensor],
    *,
    seed: int,
    dtype: torch.dtype,
    trainable: str | None = None,
) -> Case:
    """Make the module and its columns `(inputs..., targets)` under `seed`, train, split into train and queries."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module, columns = make()
        module.double()
        train = tuple(column[:TRAIN_SIZE] for column in columns)
        fit(module, loss, train)
    module.to(dtype)
    columns = tuple(column.to(dtype) if column.is_floating_point() else column for column in columns)
    return Case(
        name=name,
        module=module,
        loss=loss,
        train=tuple(column[:TRAIN_SIZE] for column in columns),
        queries=tuple(column[TRAIN_SIZE:] for column in columns),
        trainable=trainable,
    )


def fit(module: nn.Module, loss: str | Callable[[Tensor, Tensor], Tensor], train: tuple[Tensor, ...]) -> None:
    """Forty full-batch steps of Adam in train mode; the mode stays."""
    module.train()
    optimizer = torch.optim.Adam(module.parameters(), lr=0.02)
    for _ in range(40):
        optimizer.zero_grad()
        losses(module, loss, train).mean().backward()
        optimizer.step()
    optimizer.zero_grad()


def normal(*shape: int) -> Tensor:
    """Standard normal inputs, a row for each training example and query."""
    return torch.randn(TRAIN_SIZE + QUERY_SIZE, *shape, dtype=torch.float64)


def tokens(length: int, vocabulary: int) -> Tensor:
    """Uniform token ids."""
    return torch.randint(vocabulary, (TRAIN_SIZE + QUERY_SIZE, length))


def scores(inputs: Tensor, count: int) -> Tensor:
    """A random linear teacher with noise, so that no model fits its labels entirely; shape (rows, count)."""
    features = inputs.reshape(len(inputs), -1).double()
    features = (features - features.mean(dim=0)) / features.std(dim=0)
    teacher = torch.randn(features.shape[1], count, dtype=torch.float64)
    return features @ teacher / features.shape[1] ** 0.5 + 0.5 * normal(count)


def classes(inputs: Tensor, count: int) -> Tensor:
    """Class labels from the noisy teacher."""
    return scores(inputs, count).argmax(dim=1)


# --- modules ----------------------------------------------------------------------------------------------------------


class Regressor(nn.Module):
    """An MLP with one output for each example, of shape (batch,)."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Dropout(0.1), nn.Linear(5, 1))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.body(inputs).squeeze(1)


class LSTMClassifier(nn.Module):
    """The last hidden state of an LSTM, dropout, a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(2, 3, batch_first=True)
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(3, 3)

    def forward(self, sequences: Tensor) -> Tensor:
        states, _ = self.lstm(sequences)
        return self.head(self.dropout(states[:, -1]))


class TransformerClassifier(nn.Module):
    """Token embedding, one encoder layer with LayerNorm, mean pooling, a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(9, 4)
        self.encoder = nn.TransformerEncoderLayer(4, nhead=2, dim_feedforward=4, dropout=0.1, batch_first=True)
        self.head = nn.Linear(4, 2)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.encoder(self.embedding(ids)).mean(dim=1))


class SharedParameter(nn.Module):
    """A bare parameter W of no layer, used twice: tanh(tanh(x W) W^T + b)."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4) / 2)
        self.bias = nn.Parameter(torch.zeros(4))
        self.head = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.tanh(inputs @ self.weight)
        return self.head(torch.tanh(hidden @ self.weight.T + self.bias))


class TiedWeights(nn.Module):
    """A small language model: the output layer's weight is the embedding's, one Parameter under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.hidden = nn.Linear(4, 4)
        self.output = nn.Linear(4, 7)
        self.output.weight = self.embedding.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.output(torch.tanh(self.hidden(self.embedding(ids).mean(dim=1))))


class TokenClassifier(nn.Module):
    """Embeddings of all tokens side by side, and a linear layer; some embedding rows are rare."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(12, 3)
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(12, 3)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.dropout(self.embedding(ids)).flatten(1))


class TwoInputs(nn.Module):
    """tanh(A x1) * (B x2), then a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(3, 4)
        self.right = nn.Linear(5, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        return self.head(torch.tanh(self.left(first)) * self.right(second))


class Temperature(nn.Module):
    """Logits times a parameter without dimensions, as CLIP has one."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
        self.logit_scale = nn.Parameter(torch.tensor(0.3))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.body(inputs) * self.logit_scale.exp()


def huber(outputs: Tensor, targets: Tensor) -> Tensor:
    """Huber's loss with delta = 0.5, summed over the outputs of an example."""
    return F.huber_loss(outputs, targets, delta=0.5, reduction="none").sum(dim=1)


# --- the cases --------------------------------------------------------------------------------------------------------


def logistic_regression(seed: int = 0, dtype: torch.dtype = torch.float64) -> Case:
    """Convex; the GGN is the Hessian."""

    def make() -> tuple[nn.Module, tuple[Tensor, ...]]:
        inputs = normal(5)
        return nn.Linear(5, 3), (inputs, classes(inputs, 3))

    return build("logistic_regression", make, "cross_entropy", seed=seed, dtype=dtype)


def mlp_dropout(seed: int = 0, dtype: torch.dtype = torch.float64) -> Case:
    """An MLP with dropout."""

    def make() -> tuple[nn.Module, tuple[Tensor, ...]]:
        module = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Dropout(0.3), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
        inputs = normal(5)
        return module, (inputs, classes(inputs, 3))

    return build("mlp_dropout", make, "cross_entropy", seed=seed, dtype=dtype)


def cnn_batchnorm(seed: int = 0, dtype: torch.dtype = torch.float64) -> Case:
    """Two convolutions with batch-norm on 1x6x6 images."""

    def make() -> tuple[nn.Module, tuple[Tensor, ...]]:
        module = nn.Sequential(
            *(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU()),
            *(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU()),
            *(nn.Flatten(), nn.Dropout(0.2), nn.Linear(12, 3)),
        )
        images = normal(1, 6, 6)
        return module, (images, classes(images, 3))

    return build("cnn_batchnorm", make, "cross_entropy", seed=seed, dtype=dtype)


def lstm(seed: int = 0, dtype: torch.dtype = torch.float64) -> Case:
    """An LSTM classifier."""

    def make() -> tuple[nn.Module, tuple[Tensor, ...]]:
        sequences = normal(5, 2)
        return LSTMClassifier(), (sequences, classes(sequences, 3))

    return build("lstm", make, "cross_entropy", seed=seed, dtype=dtype)


def transformer(seed: int = 0, dtype: torch.dtype = torch.float64) -> Case:
    """A transformer encoder with trainable LayerNorm; the embedding is left out of `trainable`."""

    def make() -> tuple[nn.Module, tuple[Tensor, ...]]:
        ids = tokens(5, 9)
        return TransformerClassifier(), (ids, classes(ids, 2))

    return build("transformer", make, "cross_entropy", seed=seed, dtype=dtype, trainable=r"^encoder\.|^head\.")


def shared_parameter(seed: int = 0, dtype: torch.dtype = torch.float64) -> Case:
    """A bare parameter used twice."""

    def make() -> tuple[nn.Module, tuple[Tensor, ...]]:
        inputs = normal(4)
        return SharedParameter(), (inputs, classes(inputs, 3))

    return build("shared_parameter", make, "cross_entropy", seed=seed, dtype=dtype)


def regression(seed: int = 0, dtype: torch.dtype = torch.float64) -> Case:
    """Outputs and targets of shape (batch,)."""

    def make() -> tuple[nn.Module, tuple[Tensor, ...]]:
        inputs = normal(4)
        return Regressor(), (inputs, scores(inputs, 1).squeeze(1))

    return build("regression", make, "mse_loss", seed=seed, dtype=dtype)


def multi_label(seed: int = 0, dtype: torch.dtype = torch.float64) -> Case:
    """Four yes-or-no labels for each example; the loss is their average."""

    def make() -> tuple[nn.Module, tuple[Tensor, ...]]:
        module = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Dropout(0.2), nn.Linear(6, 4))
        inputs = normal(5)
        return module, (inputs, (scores(inputs, 4) > 0).double())

    return build("multi_label", make, "binary_cross_entropy_with_logits", seed=seed, dtype=dtype)


def tied_weights(seed: int = 0, dtype: torch.dtype = torch.float64) -> Case:
    """The same Parameter under two names."""

    def make() -> tuple[nn.Module, tuple[Tensor, ...]]:
        ids = tokens(3, 7)
        return TiedWeights(), (ids, classes(ids, 7))

    return build("tied_weights", make, "cross_entropy", seed=seed, dtype=dtype)


def embedding(seed: int = 0, dtype: torch.dtype = torch.float64) -> Case:
    """Trainable embeddings of token ids."""

    def make() -> tuple[nn.Module, tuple[Tensor, ...]]:
        ids = tokens(4, 12)
        return TokenClassifier(), (ids, classes(ids, 3))

    return build("embedding", make, "cross_entropy", seed=seed, dtype=dtype)


def conv1d(seed: int = 0, dtype: torch.dtype = torch.float64) -> Case:
    """Convolutions over time with padding, stride and dilation."""

    def make() -> tuple[nn.Module, tuple[Tensor, ...]]:
        module = nn.Sequential(
            *(nn.Conv1d(2, 4, 3, padding=1, stride=2), nn.GELU()),
            *(nn.Conv1d(4, 3, 2, dilation=2), nn.GELU()),
            *(nn.Flatten(), nn.Linear(6, 3)),
        )
        series = normal(2, 8)
        return module, (series, classes(series, 3))

    return build("conv1d", make, "cross_entropy", seed=seed, dtype=dtype)


def custom_loss(seed: int = 0, dtype: torch.dtype = torch.float64) -> Case:
    """A callable loss: Huber's, on two outputs."""

    def make() -> tuple[nn.Module, tuple[Tensor, ...]]:
        inputs = normal(4)
        return nn.Sequential(nn.Linear(4, 6), nn.SiLU(), nn.Linear(6, 2)), (inputs, scores(inputs, 2))

    return build("custom_loss", make, huber, seed=seed, dtype=dtype)


def two_inputs(seed: int = 0, dtype: torch.dtype = torch.float64) -> Case:
    """Examples of the form (x1, x2, y)."""

    def make() -> tuple[nn.Module, tuple[Tensor, ...]]:
        first, second = normal(3), normal(5)
        return TwoInputs(), (first, second, classes(torch.cat([first, second], dim=1), 3))

    return build("two_inputs", make, "cross_entropy", seed=seed, dtype=dtype)


def temperature(seed: int = 0, dtype: torch.dtype = torch.float64) -> Case:
    """A parameter without dimensions."""

    def make() -> tuple[nn.Module, tuple[Tensor, ...]]:
        inputs = normal(4)
        return Temperature(), (inputs, classes(inputs, 3))

    return build("temperature", make, "cross_entropy", seed=seed, dtype=dtype)


FACTORIES: tuple[Factory, ...] = (
    logistic_regression,
    mlp_dropout,
    cnn_batchnorm,
    lstm,
    transformer,
    shared_parameter,
    regression,
    multi_label,
    tied_weights,
    embedding,
    conv1d,
    custom_loss,
    two_inputs,
    temperature,
)
CASES: list[tuple[str, Factory]] = [(factory.__name__, factory) for factory in FACTORIES]
