"""The next batch is laid out in main memory while a GPU works on this one. Knows batches, and not what is in them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

from fastif.batch import Batch
from fastif.model import Model


def placed_ahead(model: Model, batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yield the batches on the model's device, each laid out before it is asked for where that is done by a CPU.

    The first is made in the caller's thread: what data computes only once is computed there.
    """
    batch = next(batches, None)
    if batch is None:
        return
    placed = model.place(batch)
    if placed.targets.device == batch.targets.device:  # the same processor would do both
        yield placed
        yield from map(model.place, batches)
        return
    with ThreadPoolExecutor(max_workers=1) as thread:
        while True:
            coming = thread.submit(copy_context().run, lambda: next(batches, None))  # in this one's turn, and budget
            yield placed
            batch = coming.result()
            if batch is None:
                return
            placed = model.place(batch)
