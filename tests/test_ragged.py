"""Rows of unequal number: what is put is what is read, padded, wherever it lies."""

import pytest
import torch

from fastif.ragged import Ragged

LENGTHS = torch.tensor([3, 1, 4, 2])


@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
def test_what_was_put_is_read_back(shape: tuple[int, ...]) -> None:
    ragged = Ragged(torch.full((10, *shape), torch.nan), LENGTHS)
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randn(int(length), *shape, generator=generator) for length in LENGTHS]
    for ids in ([2, 0], [3, 1]):
        padded = torch.nn.utils.rnn.pad_sequence([rows[index] for index in ids], batch_first=True, padding_value=7.0)
        ragged.put(torch.tensor(ids), padded)
    batch = ragged.batch(torch.tensor([1, 2, 3]), fill=-1.0)
    assert batch.shape == (3, 4, *shape)
    for row, index in zip(batch, (1, 2, 3), strict=True):
        length = int(LENGTHS[index])
        assert torch.equal(row[:length], rows[index])
        assert (row[length:] == -1.0).all()


def test_lengths_are_rounded_up_on_request() -> None:
    ragged = Ragged(torch.arange(10), LENGTHS)
    ids = torch.tensor([0, 3])
    assert ragged.longest(ids) == 3
    assert ragged.longest(ids, 8) == 8
    assert ragged.batch(ids, length=8).tolist() == [[0, 1, 2, 0, 0, 0, 0, 0], [8, 9, 0, 0, 0, 0, 0, 0]]
