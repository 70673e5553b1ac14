"""Batches laid out ahead are the same batches, in order; what goes wrong in the other thread is heard of here."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from fastif.ahead import placed_ahead
from fastif.batch import Batch


class Elsewhere:
    """A model on a device of its own, on which nothing is computed."""

    def place(self, batch: Batch) -> Batch:
        return batch.map(lambda tensor: tensor.to("meta"))


class Here:
    def place(self, batch: Batch) -> Batch:
        return batch


def batches(count: int) -> Iterator[Batch]:
    for number in range(count):
        yield Batch((torch.zeros(1),), torch.zeros(1), torch.tensor([number]))


@pytest.mark.parametrize("model", [Elsewhere(), Here()])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_all_come_in_order(model: Any, count: int) -> None:
    assert [int(batch.ids[0]) for batch in placed_ahead(model, batches(count))] == list(range(count))


def test_an_error_comes_through() -> None:
    def some() -> Iterator[Batch]:
        yield from batches(2)
        raise ValueError("unreadable")

    model: Any = Elsewhere()
    with pytest.raises(ValueError, match="unreadable"):
        list(placed_ahead(model, some()))
