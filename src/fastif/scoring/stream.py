"""Run over a data set batch by batch and keep nothing but scores: memory does not grow with the examples."""

from collections.abc import Callable

import torch
from torch import Tensor

from fastif import vectors
from fastif.ahead import placed_ahead
from fastif.batch import Batch
from fastif.data import Examples
from fastif.fitting import fitting
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
    """Return the scores of all examples, or of those with the given numbers: (directions, examples), on the CPU.

    Where memory runs out, a batch is cut in two; what is there by then is not lost.
    """
    wanted = data.everyone() if ids is None else ids
    positions = data.by_length(wanted)
    total = len(wanted)
    parts: list[Tensor] = []
    done = 0
    for batch in placed_ahead(model, data.batches(batch_size, wanted[positions])):
        progress("scoring", done, total)
        parts += fitting(lambda some: score_batch(some).detach(), batch)
        done += len(batch)
    values = torch.cat(parts, dim=1)
    in_order = values[:, positions.argsort().to(values.device)].to("cpu", vectors.dtype(directions))
    progress("scoring", total, total)
    return in_order
