"""Do work in one go, or in as many parts as fit into memory. Knows that it can be cut, and not what it is."""

import gc
from collections.abc import Callable
from typing import TypeVar

import torch

from fastif.batch import Batch

Whole = TypeVar("Whole")
Result = TypeVar("Result")


def in_parts(
    work: Callable[[Whole], Result], whole: Whole, size: int, cut: Callable[[Whole, int, int], Whole]
) -> list[Result]:
    """Return what the work gives, cut in two wherever memory runs out; what cannot be cut must fit.

    Args:
        work: what is done.
        whole: what it is done with.
        size: how many things there are in that.
        cut: (whole, start, stop) -> those from start to stop.
    """
    try:
        return [work(whole)]
    except torch.OutOfMemoryError:
        if size == 1:
            raise
    # outside of the handler, whose traceback would keep tensors of the failed try alive
    gc.collect()  # tensors in a cycle are memory too, and nothing else tells Python to look for them
    torch.cuda.empty_cache()
    half = size // 2
    ends = ((0, half), (half, size))
    return [part for start, stop in ends for part in in_parts(work, cut(whole, start, stop), stop - start, cut)]


def fitting(work: Callable[[Batch], Result], batch: Batch) -> list[Result]:
    """Return what the work gives for the examples of a batch."""
    return in_parts(work, batch, len(batch), Batch.rows)
