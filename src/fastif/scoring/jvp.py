r"""Score by forward mode: $s \cdot \nabla \ell(z_i)$ is the derivative of the loss of $z_i$ along s.

One forward-mode derivative of the vector of losses scores a whole batch exactly, with no gradient of any example. It
works for every model, and costs about 1 + 2 K forward passes for K directions.
"""

from functools import partial

from torch import Tensor

from fastif.data import Examples
from fastif.derivatives import directional_derivatives
from fastif.model import Model
from fastif.progress import Progress, silent
from fastif.scoring.stream import stream
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
    score = partial(directional_derivatives, model, directions=directions)
    return stream(score, model, data, directions, ids=ids, batch_size=batch_size, progress=progress)
