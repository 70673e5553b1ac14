"""Many small steps, each with the curvature of a few examples: plainly on a CPU, as one CUDA graph on a GPU.

A step of LiSSA on one example is over before its kernels are launched one by one; recorded once and replayed, they
follow each other without Python. Both ways compute the same. Knows the operator and the step, and no particular solver.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from fastif import memory
from fastif.batch import Batch
from fastif.curvature import CurvatureOperator
from fastif.vectors import Block

Update = Callable[[Block, Block], Block]
"""(state, the sum over each group's examples of their curvature times the group's part of it) -> the next state."""
WARM_UPS = 3  # before a recording, as torch asks for
OF_MEMORY = 0.1  # of a GPU, for examples laid out ahead
FEWEST_STEPS = 20  # less is not worth a recording


def run_steps(
    operator: CurvatureOperator,
    state: Block,
    ids: Tensor,
    update: Update,
    *,
    groups: int,
    look: Callable[[int, Block], None] = lambda step, state: None,
) -> Block:
    """Return the state after a step for each row of `ids`, (steps, groups * examples of a group).

    `look(step, state)` is called after each step; what it is given changes with the next.
    """
    device = next(iter(state.values())).device
    if device.type == "cuda" and len(ids) >= FEWEST_STEPS:
        try:
            return _replayed(operator, state, ids, update, groups=groups, look=look)
        except _NotRecordable:
            pass
    for step, some in enumerate(ids):
        image = operator.grouped(operator.batch(some), state, groups)
        state = update(state, image)
        look(step, state)
    return state


class _NotRecordable(Exception):  # noqa: N818 - no error, but the way back to plain steps
    """The step does something that a CUDA graph cannot hold."""


def _replayed(
    operator: CurvatureOperator,
    state: Block,
    ids: Tensor,
    update: Update,
    *,
    groups: int,
    look: Callable[[int, Block], None],
) -> Block:
    width, done = ids.shape[1], 0
    graphs: dict[tuple[torch.Size, ...], _Graph] = {}
    one = operator.batch(ids[0])
    bytes_each = _times_longer(operator, ids[0]) * sum(tensor.nbytes for tensor in one.tensors().values())
    at_once = max(1, int(memory.share(one.targets.device, OF_MEMORY, 0) / max(1.0, bytes_each)))
    for some in ids.split(at_once):
        ahead = operator.batch(some.flatten())
        shapes = tuple(tensor.shape[1:] for tensor in ahead.tensors().values())
        if shapes not in graphs:
            graphs[shapes] = _Graph(operator, ahead.rows(0, width), state, update, groups)
        graph = graphs[shapes]
        graph.begin(state)
        for row in range(len(some)):
            graph.step(ahead.rows(row * width, (row + 1) * width))
            look(done, graph.state)
            done += 1
        state = {name: tensor.clone() for name, tensor in graph.state.items()}
    return state


def _times_longer(operator: CurvatureOperator, positions: Tensor) -> float:
    """Return how many times longer the longest of all examples is than the longest of some."""
    lengths = operator.data.lengths
    return 1.0 if lengths is None else float(lengths.max()) / float(lengths[operator.ids[positions]].max())


class _Graph:
    """One step, recorded for inputs of one shape; the state is changed in place."""

    def __init__(self, operator: CurvatureOperator, batch: Batch, state: Block, update: Update, groups: int) -> None:
        self.state = {name: tensor.clone() for name, tensor in state.items()}
        self._inputs = batch.map(torch.clone)
        self._graph = torch.cuda.CUDAGraph()

        def step() -> Block:
            image = operator.grouped(self._inputs, self.state, groups)
            return update(self.state, image)

        beside = torch.cuda.Stream()
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            for _ in range(WARM_UPS):
                step()
        torch.cuda.current_stream().wait_stream(beside)
        try:
            with torch.cuda.graph(self._graph):
                for name, tensor in step().items():
                    self.state[name].copy_(tensor)
        except RuntimeError as error:
            torch.cuda.synchronize()
            raise _NotRecordable from error

    def begin(self, state: Block) -> None:
        """Start from a state."""
        for name, tensor in state.items():
            self.state[name].copy_(tensor)

    def step(self, batch: Batch) -> None:
        """Take one step with the examples of a batch."""
        given, own = batch.tensors(), self._inputs.tensors()
        for name, tensor in own.items():
            tensor.copy_(given[name], non_blocking=True)
        self._graph.replay()
