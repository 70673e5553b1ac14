"""Data that changes from one reading to the next, and losses that change with the padding."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import Dataset

import fastif
from fastif.errors import DataError, FastifWarning, ModelError
from fastif.losses import PerExample

ITEMS = [(torch.arange(1, 3 + length) % 5, torch.arange(2 + length) % 3) for length in [3] * 20 + [1, 2]]


def padded(items: list[Any], to: int = 0) -> tuple[Tensor, Tensor]:
    ids, targets = zip(*items, strict=True)
    columns = [nn.utils.rnn.pad_sequence(ids, batch_first=True)]
    columns.append(nn.utils.rnn.pad_sequence(targets, batch_first=True, padding_value=-100))
    more = max(0, to - columns[0].shape[1])
    return F.pad(columns[0], (0, more)), F.pad(columns[1], (0, more), value=-100)


class Tags(nn.Module):
    def __init__(self, leak: float = 0.0) -> None:
        super().__init__()
        self.embedding, self.head, self.leak = nn.Embedding(5, 4), nn.Linear(4, 3), leak

    def forward(self, ids: Tensor) -> Tensor:
        states = self.embedding(ids)
        return self.head(states + self.leak * states.mean(dim=1, keepdim=True)).transpose(1, 2)


def over_all_positions(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="none").mean(dim=1)


def explainer(module: nn.Module, loss: str | PerExample, collate: Any = padded) -> fastif.Explainer:
    return fastif.Explainer(fastif.TorchModel(module, loss), fastif.Examples(ITEMS, collate=collate), damping=0.1)


def test_a_loss_that_padding_enters_is_refused() -> None:
    torch.manual_seed(0)
    with pytest.raises(ModelError, match=r"example 21 of data is .* alone and .* in a batch with longer ones"):
        explainer(Tags(), over_all_positions)
    explainer(Tags(), over_all_positions, collate=lambda items: padded(items, to=7))


def test_a_module_that_padding_enters_is_refused_and_warned_of_where_it_is_little() -> None:
    torch.manual_seed(0)
    with pytest.raises(ModelError, match="its padding enters the loss"):
        explainer(Tags(leak=1.0), "cross_entropy")
    with pytest.warns(FastifWarning, match="scores depend on the batch size"):
        explainer(Tags(leak=0.05), "cross_entropy")
    explainer(Tags(), "cross_entropy")


def test_examples_that_cannot_be_put_together_are_worked_with_one_by_one() -> None:
    def stacked(items: list[Any]) -> tuple[Tensor, ...]:
        return tuple(map(torch.stack, zip(*items, strict=True)))

    model = fastif.TorchModel(Tags(), over_all_positions)
    examples = fastif.Examples(ITEMS, collate=stacked)
    explained = fastif.Explainer(model, examples, damping=0.1, batch_size=1, solver=fastif.Identity())
    assert explained.scores(fastif.Examples(ITEMS[:1], collate=stacked)).values.shape == (1, len(ITEMS))


def test_data_that_changes_with_every_reading_is_refused() -> None:
    class Noisy(Dataset[tuple[Tensor, int]]):
        def __init__(self, amount: float) -> None:
            self.amount, self.reads = amount, 0

        def __len__(self) -> int:
            return 50

        def __getitem__(self, index: int) -> tuple[Tensor, int]:
            self.reads += 1
            return index + torch.randn(2) * self.amount, index % 2

    model = fastif.TorchModel(nn.Linear(2, 2), loss="cross_entropy")
    with pytest.raises(DataError, match="train gives other values in input 0 each time"):
        fastif.Explainer(model, Noisy(1.0))
    with pytest.raises(DataError, match="hessian_data gives other values"):
        fastif.Explainer(model, (torch.randn(4, 2), torch.zeros(4).long()), hessian_data=Noisy(1.0))
    same = Noisy(0.0)
    fastif.Explainer(model, same)
    assert same.reads <= 16  # a few twice, and no more: reading may be slow
