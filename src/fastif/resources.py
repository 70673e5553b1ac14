"""What an explainer works with: precision, memory, and how much goes through the model together.

Everything follows from the model's device, one budget of memory and one name of a precision. Knows a model and data
sets, and nothing of curvature or scores.
"""

import contextlib
import math
from collections.abc import Iterator
from functools import cached_property

import torch

from fastif import memory, precision
from fastif.data import Examples
from fastif.errors import ConfigurationError
from fastif.model import TorchModel
from fastif.precision import HALVES, Precision
from fastif.turns import in_turn

CPU_BATCH, MOST_AT_ONCE = 256, 16384
OF_MEMORY = 0.25  # of a GPU, for what a backward pass through one batch needs
BLOCK_BYTES, OF_MEMORY_BLOCK = 2**31, 0.4  # what the vectors of one block solve may take: on a CPU, and of a GPU
VECTORS_IN_A_SOLVE = 8  # that a solver holds for each query unless it says so: solution, residual, their images, ...
MOST_QUERIES_AT_ONCE = 512


class Resources:
    """How an explainer works.

    Args:
        model: the model.
        precision: of matrix products; see precision.py.
        memory_budget: bytes that may be taken on the model's device; None for all that is free.
        batch_size: examples of a mean length that go through the model together; None finds it.
    """

    def __init__(
        self, model: TorchModel, precision_name: Precision, memory_budget: int | None, batch_size: int | None
    ) -> None:
        if batch_size is not None and (
            isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1
        ):
            raise ConfigurationError(f"batch_size must be a whole number of at least 1, not {batch_size!r}.")
        memory.check_budget(memory_budget)
        self.model = model
        self.precision = precision.resolve(precision_name, model.device, model.dtype)
        self.memory_budget = memory_budget
        self._batch_size = batch_size

    @cached_property
    def half(self) -> TorchModel | None:
        """The model in half precision, where that was asked for."""
        dtype = HALVES.get(self.precision)
        return None if dtype is None else self.model.in_half(dtype)

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Keep other threads, a caller's autocast and inference mode away from derivatives, which they would spoil."""
        device = self.model.device
        with (
            in_turn(),
            torch.inference_mode(False),
            torch.autocast(device.type, enabled=False),
            precision.matmuls(self.precision, device),
            memory.limited(self.memory_budget, device),
        ):
            yield

    def batch_size(self, data: Examples) -> int:
        """Return how many examples go through the model together."""
        if self._batch_size is not None:
            return self._batch_size
        device = self.model.device
        if device.type != "cuda":
            return CPU_BATCH
        with memory.limited(self.memory_budget, device):
            room = OF_MEMORY * memory.available(device)
        # measured on the first example, whose length need not be the mean
        times = 1.0 if data.lengths is None else float(data.lengths.double().mean()) / float(data.lengths[0])
        return max(1, min(MOST_AT_ONCE, int(room / max(1.0, times * self.model.bytes_per_example))))

    @property
    def vectors_at_once(self) -> int:
        """How many vectors may be solved for together."""
        return self._room_for(VECTORS_IN_A_SOLVE)

    def queries_at_once(self, queries: int, vectors_held: int = VECTORS_IN_A_SOLVE) -> int:
        """Return how many of the queries to solve for together, by a solver that holds so many vectors for each.

        In parts of about one size: a small last one would cost as much as any.
        """
        parts = math.ceil(queries / self._room_for(vectors_held))
        return max(1, math.ceil(queries / max(1, parts)))

    @property
    def directions_at_once(self) -> int:
        """How many solutions may wait, to be scored in one scan of the data."""
        return self._room_for(1)

    def _room_for(self, vectors_each: int) -> int:
        bytes_each = vectors_each * sum(tensor.nbytes for tensor in self.model.parameters.values())
        device = self.model.device
        with memory.limited(self.memory_budget, device):
            room = memory.share(device, OF_MEMORY_BLOCK, BLOCK_BYTES)
        return max(1, min(MOST_QUERIES_AT_ONCE, room // max(1, bytes_each)))
