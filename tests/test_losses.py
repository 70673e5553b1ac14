"""Torch's losses by name, where examples have positions without a target."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import fastif
from fastif.losses import NamedLoss
from tests import oracles
from tests.problems import CURVATURES, relative_error

IGNORED = -100
CLASSES = 3


class Tagger(nn.Module):
    """A class for each position, (batch, classes, positions); what a position says depends on its token alone."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(5, 2), nn.Linear(2, CLASSES)

    def forward(self, ids: Tensor) -> Tensor:
        return torch.tanh(self.head(self.embedding(ids))).transpose(1, 2)


def sentences() -> list[tuple[Tensor, Tensor]]:
    """Of unequal lengths, the first few of one; some positions, and all of one sentence, have no target."""
    generator = torch.Generator().manual_seed(4)
    lengths = [4] * 8 + torch.randint(1, 5, (6,), generator=generator).tolist()
    made = []
    for row, length in enumerate(lengths):
        ids, targets = torch.randint(1, 5, (length,), generator=generator), torch.randint(0, CLASSES, (length,))
        targets[: length if row == 3 else row % 2] = IGNORED
        made.append((ids, targets))
    return made


def padded(items: list[Any]) -> tuple[Tensor, Tensor]:
    ids, targets = zip(*items, strict=True)
    pad = nn.utils.rnn.pad_sequence
    return pad(ids, batch_first=True), pad(targets, batch_first=True, padding_value=IGNORED)


def mean_over_targets(outputs: Tensor, targets: Tensor) -> Tensor:
    """What torch's own mean is for each example alone, and zero where that is not a number."""
    each = [F.cross_entropy(output, target) for output, target in zip(outputs.mT, targets, strict=True)]
    return torch.stack(
        [torch.zeros(()) if target.max() < 0 else one for one, target in zip(each, targets, strict=True)]
    )


@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
def test_a_class_loss_is_torchs_mean_over_the_positions_that_have_a_target(name: str) -> None:
    outputs, targets = torch.randn(5, 3, 7).log_softmax(dim=1), torch.randint(0, 3, (5, 7))
    targets[0, 2:], targets[1, ::2], targets[2] = IGNORED, IGNORED, IGNORED
    seen = NamedLoss(name)(outputs, targets)
    for row in (0, 1, 3, 4):
        torch.testing.assert_close(seen[row], getattr(F, name)(outputs[row : row + 1], targets[row : row + 1]))
    assert seen[2] == 0.0
    chances = torch.rand(5, 3, 7).softmax(dim=1)  # which have no ignored class
    expected = F.cross_entropy(outputs, chances, reduction="none").mean(dim=1)
    torch.testing.assert_close(NamedLoss("cross_entropy")(outputs, chances), expected)


SOLVERS: dict[str, list[Any]] = {
    "gauss-newton": [fastif.Exact("primal"), fastif.Exact("dual"), fastif.ConjugateGradient(1e-11)],
    "hessian": [fastif.Exact("primal"), fastif.ConjugateGradient(1e-11)],
}


@pytest.mark.parametrize("curvature", CURVATURES)
def test_padding_does_not_change_scores(curvature: Any) -> None:
    torch.manual_seed(2)
    module, items = Tagger().double(), sentences()
    names, whole, damping = oracles.parameter_names(module), padded(items), 0.3

    def gradients(columns: tuple[Tensor, ...]) -> Tensor:
        return oracles.per_example_gradients(module, names, mean_over_targets, columns)

    dense = oracles.dense_ggn if curvature == "gauss-newton" else oracles.dense_hessian
    matrix = dense(module, names, mean_over_targets, whole)
    expected = oracles.influence(gradients(padded(items[7:10])), matrix, gradients(whole), damping)
    assert torch.isfinite(expected).all()
    own = oracles.self_influence(matrix, gradients(whole), damping)
    for solver, size in itertools.product(SOLVERS[curvature], (1, 5)):
        explainer = fastif.Explainer(
            fastif.TorchModel(module, loss="cross_entropy"),
            fastif.Examples(items, collate=padded),
            solver=solver,
            damping=damping,
            curvature=curvature,
            batch_size=size,
        )
        seen = explainer.scores(fastif.Examples(items[7:10], collate=padded)).values
        assert relative_error(seen, expected) < 1e-6
        assert (seen[:, 3] == 0).all()  # of the sentence without targets
        if isinstance(solver, fastif.Exact):
            assert relative_error(explainer.self_influence(), own) < 1e-6
