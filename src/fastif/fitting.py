"""Run a batch in one go, or in as many parts as fit into memory. Knows batches, and not what is done with them."""

from collections.abc import Callable
from typing import TypeVar

import torch

from fastif.batch import Batch

Result = TypeVar("Result")


def fitting(work: Callable[[Batch], Result], batch: Batch) -> list[Result]:
    """Return what the work gives for a batch, cut in two wherever memory runs out; a single example must fit."""
    try:
        return [work(batch)]
    except torch.OutOfMemoryError:
        if len(batch) == 1:
            raise
    torch.cuda.empty_cache()  # outside of the handler, whose traceback would keep tensors of the failed try alive
    half = len(batch) // 2
    return [*fitting(work, batch.rows(0, half)), *fitting(work, batch.rows(half, len(batch)))]
