r"""Score by forward mode: $s \cdot \nabla \ell(z_i)$ is the derivative of the loss of $z_i$ along s.

One forward-mode derivative of the vector of losses scores a whole batch exactly, with no gradient of any example.
Memory does not grow with the number of examples: a batch is scored and forgotten.
"""

import torch
from torch import Tensor

from fastif import vectors
from fastif.data import Examples
from fastif.derivatives import directional_derivatives
from fastif.model import Model
from fastif.progress import Progress, silent
from fastif.vectors import Block


def scan(
    model: Model,
    data: Examples,
    directions: Block,
    *,
    ids: Tensor | None = None,
    batch_size: int = 256,
    progress: Progress = silent,
) -> Tensor:
    """Return the derivative of every example's loss along every direction: (directions, examples), on the CPU."""
    total = len(data) if ids is None else len(ids)
    dtype = next(iter(directions.values())).dtype
    values = torch.empty(vectors.width(directions), total, dtype=dtype, device="cpu")
    done = 0
    for batch in data.batches(batch_size, ids):
        progress("scoring", done, total)
        values[:, done : done + len(batch)] = directional_derivatives(model, model.place(batch), directions).detach()
        done += len(batch)
    progress("scoring", total, total)
    return values
