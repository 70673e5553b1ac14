"""The order of a training: everything once, of about one length, by seed and epoch."""

import torch

from fastif.shuffling import bucketed


def test_batches_are_of_about_one_length_and_hold_everything() -> None:
    lengths = torch.randint(1, 60, (1000,), generator=torch.Generator().manual_seed(0))
    batches = list(bucketed(lengths, 1000, 8, seed=0, epoch=1))
    assert sorted(torch.cat(batches).tolist()) == list(range(1000))
    padded = sum(len(ids) * int(lengths[ids].max()) for ids in batches)
    assert padded < 1.1 * int(lengths.sum())
    assert [ids.tolist() for ids in bucketed(lengths, 1000, 8, seed=0, epoch=2)] != [ids.tolist() for ids in batches]
    longest = [int(lengths[ids].max()) for ids in batches[:50]]
    assert longest != sorted(longest, reverse=True)


def test_a_batch_may_be_larger_than_any_number_that_torch_holds() -> None:
    (all_of_them,) = bucketed(None, 10, 10**20, seed=0, epoch=1)
    (same,) = bucketed(None, 10, 10, seed=0, epoch=1)
    assert all_of_them.tolist() == same.tolist()
