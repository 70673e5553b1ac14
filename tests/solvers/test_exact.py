"""The exact solver on outputs of unequal lengths, which a batch pads to its own longest."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

import fastif
from tests import oracles
from tests.problems import relative_error

Item = tuple[Tensor, Tensor]
LENGTHS = [1, *[5] * 9, *[3] * 6]  # the first is the shortest


class Tagger(nn.Module):
    """Four classes for every token."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.inner, self.head = nn.Embedding(9, 3), nn.Linear(3, 12), nn.Linear(12, 4)

    def forward(self, ids: Tensor) -> Tensor:
        tags: Tensor = self.head(torch.tanh(self.inner(self.embed(ids)))).transpose(1, 2)
        return tags


def mean_over_tokens(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="none").sum(1) / (targets != -100).sum(1)


def padded(items: list[Item]) -> Item:
    ids, tags = zip(*items, strict=True)
    return pad_sequence(list(ids), True), pad_sequence(list(tags), True, -100)


def tagged() -> tuple[nn.Module, list[Item]]:
    torch.manual_seed(0)
    return Tagger().double(), [(torch.randint(1, 9, (size,)), torch.randint(0, 4, (size,))) for size in LENGTHS]


@pytest.mark.parametrize("batch_size", [1, 4, 256])
@pytest.mark.parametrize("solver", ["auto", fastif.Exact("dual"), fastif.ConjugateGradient(tolerance=1e-10)], ids=str)
def test_outputs_of_unequal_lengths(solver: fastif.Exact, batch_size: int) -> None:
    module, items = tagged()
    names, columns = [name for name, _ in module.named_parameters()], padded(items)
    slopes = oracles.per_example_gradients(module, names, mean_over_tokens, columns)
    expected = oracles.influence(slopes[:3], oracles.dense_ggn(module, names, mean_over_tokens, columns), slopes, 0.05)
    model = fastif.TorchModel(module, loss=mean_over_tokens)
    train, queries = (fastif.Examples(some, collate=padded) for some in (items, items[:3]))
    explainer = fastif.Explainer(model, train, solver=solver, damping=0.05, batch_size=batch_size)
    assert relative_error(explainer.scores(queries).values, expected) < 1e-8


def test_rows_that_were_not_seen_coming_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """The few that are looked at may all be short."""
    monkeypatch.setattr("fastif.data.spread", lambda total, count, lengths=None: torch.tensor([0]))
    test_outputs_of_unequal_lengths(fastif.Exact("dual"), 4)


def test_examples_of_unequal_lengths_are_left_out() -> None:
    module, items = tagged()
    model, train = fastif.TorchModel(module, loss=mean_over_tokens), fastif.Examples(items, collate=padded)
    solver = fastif.Exact("primal")
    together = fastif.Explainer(model, train, solver=solver, damping=0.05).left_out()
    apart = fastif.Explainer(model, train, solver=solver, damping=0.05, batch_size=1).left_out()
    assert apart["outputs"].shape == together["outputs"].shape == (16, 4, 5)
    for row, length in enumerate(LENGTHS):
        for name in ("outputs", "outputs_without"):
            seen, expected = apart[name][row], together[name][row]
            assert torch.isnan(seen[:, length:]).all()
            torch.testing.assert_close(seen[:, :length], expected[:, :length])
    torch.testing.assert_close(apart["losses_without"], together["losses_without"])
