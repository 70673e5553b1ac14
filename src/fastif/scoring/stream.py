"""Run over a data set batch by batch and keep nothing but scores: memory does not grow with the examples."""

from collections.abc import Callable

import torch
from torch import Tensor

from fastif import vectors
from fastif.batch import Batch
from fastif.data import Examples
from fastif.model import Model
from fastif.progress import Progress
from fastif.vectors import Block

ScoreBatch = Callable[[Batch], Tensor]  # of a placed batch: (directions, len(batch))


def stream(
    score_batch: ScoreBatch,
    model: Model,
    data: Examples,
    directions: Block,
    *,
    ids: Tensor | None,
    batch_size: int,
    progress: Progress,
) -> Tensor:
    """Return the scores of all examples, or of those with the given numbers: (directions, examples), on the CPU."""
    wanted = data.everyone() if ids is None else ids
    positions = data.by_length(wanted)
    total = len(wanted)
    values = torch.empty(vectors.width(directions), total, dtype=vectors.dtype(directions), device="cpu")
    done = 0
    for batch in data.batches(batch_size, wanted[positions]):
        progress("scoring", done, total)
        values[:, positions[done : done + len(batch)]] = score_batch(model.place(batch)).detach().cpu()
        done += len(batch)
    progress("scoring", total, total)
    return values
