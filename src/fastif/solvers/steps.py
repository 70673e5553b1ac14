"""Many small steps, each with the curvature of a few examples: plainly on a CPU, as one CUDA graph on a GPU.

A step of LiSSA on one example is over before its kernels are launched one by one; recorded once and replayed, they
follow each other without Python. Both ways compute the same. Knows the operator and the step, and no particular solver.
"""

import gc
import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from fastif import memory, vectors
from fastif.batch import Batch
from fastif.curvature import CurvatureOperator
from fastif.errors import ModelError
from fastif.solvers.fusing import fused
from fastif.solvers.held_copies import HeldCopies
from fastif.vectors import Block

Update = Callable[[Block, Block], None]
"""(state, the sum over each group's examples of their curvature times its part of it): makes it the next state."""
WARM_UPS = 3  # before a recording, as torch asks for
OF_MEMORY = 0.1  # of a GPU, for examples laid out ahead
# On a CPU groups go through a large model by themselves: together they would not stay in its caches.
EXAMPLES_AT_ONCE, CACHED = 8, 2**22
FEWEST_STEPS = 20  # less is not worth a recording
LONGER = 1.5  # a recording is for examples of up to so many times the length of those of the next shorter one


class Steps:
    """Steps on one operator for blocks of one width; what was recorded serves all later runs.

    Compiled or not, steps on a CPU are plain: they are large enough there.

    Args:
        operator: the curvature.
        like: a block of the width of a group's state.
        update: makes a state the next one.
        groups: equal parts that state and examples are cut into; a part of the state meets its own examples alone.
        compiled: fuse the kernels of a step before it is recorded, which pays for many thousands of steps.
    """

    def __init__(
        self, operator: CurvatureOperator, like: Block, update: Update, *, groups: int, compiled: bool = False
    ) -> None:
        self._compiled = compiled
        self._operator, self._update, self._groups = operator, update, groups
        self._state = vectors.repeated(like, groups)
        self.width = vectors.width(self._state)
        self._graphs: dict[tuple[torch.Size, ...], _Graph] = {}
        self._recordable = self._on_gpu = next(iter(like.values())).is_cuda
        # recordings run one after another, so that they may share their memory
        self._pool = torch.cuda.graph_pool_handle() if self._recordable else None

    @property
    def recordings(self) -> int:
        """How many steps were recorded, each for inputs of one shape."""
        return len(self._graphs)

    def run(self, start: Block, ids: Tensor, look: Callable[[int, Block], None] = lambda step, state: None) -> Block:
        """Return the state after a step for each row of `ids`, (steps, groups * examples of a group).

        `look(step, state)` is called after each step; what it is given changes with the next.
        """
        for name, tensor in start.items():
            self._state[name].copy_(tensor)
        done = self._replay(ids, look) if self._recordable and len(ids) >= FEWEST_STEPS else 0
        for step in range(done, len(ids)):
            self._update(self._state, self._images(ids[step]))
            look(step, self._state)
        return {name: tensor.clone() for name, tensor in self._state.items()}

    def _images(self, ids: Tensor) -> Block:
        """Return what the curvature makes of the state, of as many groups at a time as are soonest done."""
        each, width = len(ids) // self._groups, self.width // self._groups
        bytes_each = width * self._operator.size * vectors.dtype(self._state).itemsize
        at_once = self._groups if self._on_gpu else max(1, EXAMPLES_AT_ONCE // each, CACHED // bytes_each)
        images = []
        for first in range(0, self._groups, at_once):
            part, count = slice(first * width, (first + at_once) * width), min(at_once, self._groups - first)
            batch = self._operator.batch(ids[first * each : (first + at_once) * each])
            images.append(self._operator.grouped(batch, vectors.select(self._state, part), count))
        return images[0] if len(images) == 1 else vectors.join(images)

    def _replay(self, ids: Tensor, look: Callable[[int, Block], None]) -> int:
        """Take steps as they were recorded; return how many, which are all unless some cannot be recorded."""
        done, at_once = 0, _steps_at_once(self._operator, ids)
        while self._recordable and done < len(ids):
            end = min(done + at_once, len(ids))
            for _ in self._taken(ids[done:end]):
                look(done, self._state)
                done += 1
            if done < end:  # memory was full: fewer examples ahead
                gc.collect()
                torch.cuda.empty_cache()
                at_once = max(1, at_once // 2)
        return done

    def _taken(self, ids: Tensor) -> Iterator[None]:
        """Take recorded steps and yield after each; end before the first that cannot be, or has no memory now.

        What runs out of memory is laying out or recording: neither changes the state.
        """
        ahead: dict[int, Iterator[Batch]] = {}
        kinds = _by_length(self._operator, ids)
        for kind in kinds.tolist():
            try:
                if kind not in ahead:
                    ahead[kind] = iter(_Ahead(self._operator, ids[kinds == kind]))
                batch = next(ahead[kind])
                shapes = tuple(tensor.shape for tensor in batch.tensors().values())
                if shapes not in self._graphs:
                    self._graphs[shapes] = self._record(batch)
            except _NotRecordable:
                self._recordable = False
                return
            except torch.OutOfMemoryError:
                if len(ids) == 1:  # with nothing else laid out: plain steps take less
                    self._recordable = False
                    self._graphs.clear()
                return
            self._graphs[shapes].step(batch)
            yield

    def _record(self, batch: Batch) -> "_Graph":
        def step(state: Block, given: Batch) -> None:
            self._update(state, self._operator.grouped(given, state, self._groups))

        made: Callable[[Block, Batch], None] = step
        if self._compiled:
            self._operator.progress("compiling a step", 0, 1)
            made = fused(step, self._state, batch)
            self._operator.progress("compiling a step", 1, 1)
        # torch.compile would look into what holds copies, and has no need of it
        return _Graph(made, batch, self._state, pool=self._pool, held=None if self._compiled else HeldCopies())


class _NotRecordable(Exception):  # noqa: N818 - no error, but the way back to plain steps
    """The step does something that a CUDA graph cannot hold."""


def _steps_at_once(operator: CurvatureOperator, ids: Tensor) -> int:
    """Return for how many steps the examples may be laid out ahead."""
    one = operator.batch(ids[0])
    lengths = operator.data.lengths
    longer = 1.0 if lengths is None else float(lengths.max()) / float(lengths[operator.ids[ids[0]]].max())
    bytes_each = longer * sum(tensor.nbytes for tensor in one.tensors().values())
    return max(1, int(memory.share(one.targets.device, OF_MEMORY, 0) / max(1.0, bytes_each)))


def _by_length(operator: CurvatureOperator, ids: Tensor) -> Tensor:
    """Return a number for each step, the same for steps whose longest examples are of about one length."""
    lengths = operator.data.lengths
    if lengths is None:
        return torch.zeros(len(ids), dtype=torch.int64)
    longest = lengths[operator.ids[ids]].amax(dim=1).double()
    return (longest.clamp_min(32).log() / math.log(LONGER)).ceil().long()


class _Ahead:
    """The batches of some steps, laid out together and so all of one shape."""

    def __init__(self, operator: CurvatureOperator, ids: Tensor) -> None:
        self._batch, self._width = operator.batch(ids.flatten()), ids.shape[1]

    def __iter__(self) -> Iterator[Batch]:
        for start in range(0, len(self._batch), self._width):
            yield self._batch.rows(start, start + self._width)


class _Graph:
    """One step, recorded for inputs of one shape; the state is changed in place."""

    def __init__(
        self,
        step: Callable[[Block, Batch], None],
        batch: Batch,
        state: Block,
        *,
        pool: Any,
        held: HeldCopies | None,
    ) -> None:
        self._inputs = batch.map(torch.clone)
        self._graph = torch.cuda.CUDAGraph()
        self._held = held  # the recording reads them
        tried = {name: tensor.clone() for name, tensor in state.items()}
        beside = torch.cuda.Stream()
        beside.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(beside):
                for _ in range(WARM_UPS):
                    with held.noting() if held else nullcontext():
                        step(tried, self._inputs)
            torch.cuda.current_stream().wait_stream(beside)
            with torch.cuda.graph(self._graph, pool=pool), held.giving() if held else nullcontext():
                step(state, self._inputs)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, ModelError) as error:  # the second is what derivatives make of the first
            torch.cuda.synchronize()
            raise _NotRecordable from error

    def step(self, batch: Batch) -> None:
        """Take one step with the examples of a batch."""
        given, own = batch.tensors(), self._inputs.tensors()
        for name, tensor in own.items():
            tensor.copy_(given[name], non_blocking=True)
        self._graph.replay()
