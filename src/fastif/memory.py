"""How much memory may be used on a device: all that is free unless a budget was given.

The budget is set once for a whole piece of work and read where memory is laid out, so that batches, blocks of vectors
and what stays on a GPU all follow from one number. Knows devices, and nothing of models or data.
"""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

import torch

from fastif.errors import ConfigurationError

CPU_BYTES = 2**32  # without a budget: what the working memory of a pass may take on a CPU
OF_FREE = 0.9  # without a budget: of what is free on a GPU
LEAST = 2**28  # a smaller budget holds no batch of anything

_BUDGET: ContextVar[int | None] = ContextVar("fastif_memory_budget", default=None)


def check_budget(budget: int | None) -> None:
    """Raise unless this is a budget that something can be done with."""
    if budget is None:
        return
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < LEAST:
        raise ConfigurationError(
            f"memory_budget must be a number of bytes of at least {LEAST:,} (256 MiB), not {budget!r}."
        )


@contextlib.contextmanager
def limited(budget: int | None, device: torch.device) -> Iterator[None]:
    """Within this context, keep to a budget; on a GPU torch refuses more, as it does when memory is full."""
    if budget is None or budget == _BUDGET.get():
        yield
        return
    token = _BUDGET.set(budget)
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())  # a bound is one of a GPU with a number
    total = torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else 0
    try:
        if total:
            if torch.cuda.memory_reserved(device) > budget:
                torch.cuda.empty_cache()  # what torch holds from before is given out in spite of a bound
            torch.cuda.set_per_process_memory_fraction(min(1.0, budget / total), device)
        yield
    finally:
        _BUDGET.reset(token)
        if total:
            torch.cuda.set_per_process_memory_fraction(1.0, device)


def available(device: torch.device) -> int:
    """Return how many bytes may still be taken on a device."""
    budget = _BUDGET.get()
    if device.type != "cuda":
        return CPU_BYTES if budget is None else budget
    taken = torch.cuda.memory_allocated(device)
    if budget is not None:
        return max(0, budget - taken)
    held = torch.cuda.memory_reserved(device) - taken  # by torch, to be used again
    return int(OF_FREE * (torch.cuda.mem_get_info(device)[0] + held))


def part_of(device: str, processes: int) -> int | None:
    """Return what each of some other processes may take of what this one may; None for no bound.

    >>> part_of("cpu", 4)
    >>> with limited(2**31, torch.device("cpu")):
    ...     part_of("cpu", 4) == 2**29
    True
    """
    place, budget = torch.device(device), _BUDGET.get()
    if place.type != "cuda":
        room = budget
    else:
        torch.cuda.empty_cache()  # what torch holds here to use it again, they could not have
        room = int(OF_FREE * torch.cuda.mem_get_info(place)[0])
        if budget is not None:
            room = min(room, budget - torch.cuda.memory_allocated(place))
    if room is None:
        return None
    if room // processes < LEAST:
        raise ConfigurationError(
            f"{processes} processes would have {max(0, room // processes):,} bytes of memory each, and {LEAST:,} (256 "
            "MiB) are the least that anything can be done with. Take fewer processes, or a larger budget."
        )
    return room // processes


def share(device: torch.device, part: float, least: int) -> int:
    """Return a part of what is available on a GPU; on a CPU, whose caches want little, at most `least`."""
    if device.type == "cuda":
        return max(LEAST // 8, int(part * available(device)))
    budget = _BUDGET.get()
    return least if budget is None else min(least, int(part * budget))
