"""Random draws that depend on (seed, repeat, step) alone, so that any number of processes draws the same."""

from collections.abc import Sequence

import torch
from torch import Tensor


def draw_ids(total: int, count: int, *, seed: int, repeats: Sequence[int], step: int) -> Tensor:
    """Return (repeats, count) positions below `total`, each drawn evenly and with replacement, for these repeats.

    >>> torch.equal(draw_ids(9, 4, seed=1, repeats=[0, 1], step=7)[1:], draw_ids(9, 4, seed=1, repeats=[1], step=7))
    True
    """
    return torch.stack(
        [torch.randint(total, (count,), generator=generator(seed, repeat, step), device="cpu") for repeat in repeats]
    )


def shuffled_ids(total: int, *, seed: int, repeat: int, epoch: int) -> Tensor:
    """Return a random order of all positions."""
    return torch.randperm(total, generator=generator(seed, repeat, epoch), device="cpu")


def generator(*key: int) -> torch.Generator:
    """Return a generator for a key of several numbers, mixed so that neighbouring keys share nothing."""
    state = 0x9E3779B97F4A7C15
    for number in key:
        state = ((state ^ (number & 0xFFFFFFFFFFFFFFFF)) * 0xD1342543DE82EF95 + 0x2545F4914F6CDD1D) % 2**64
        state ^= state >> 29
    return torch.Generator("cpu").manual_seed(state % 2**63)
