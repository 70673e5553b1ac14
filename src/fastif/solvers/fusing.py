"""One step with its small kernels fused by torch.compile, for inputs of one shape.

A step through the curvature of one example is a thousand kernels of a few microseconds each. Its derivatives are traced
to plain operations first, where the compiler sees no transforms of functions any more; it leaves out what nothing
reads, and makes one kernel of many. That takes most of a minute for a shape, is kept by torch on disk for later
processes, and gives the same numbers to rounding.
"""

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from fastif.batch import Batch
from fastif.errors import FastifWarning
from fastif.vectors import Block

Step = Callable[[Block, Batch], None]  # changes the state in place


def fused(step: Step, state: Block, batch: Batch) -> Step:
    """Return a step that does the same for batches of this shape; the step itself where torch cannot compile it."""

    def of_tensors(some: Block, tensors: list[Tensor]) -> None:
        in_order = iter(tensors)
        step(some, batch.map(lambda _: next(in_order)))

    def copied() -> tuple[Block, list[Tensor]]:
        return {name: tensor.clone() for name, tensor in state.items()}, list(batch.tensors().values())

    from torch.fx.experimental.proxy_tensor import make_fx  # long to import, and few need it

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # advice of the compiler's, for its developers
            compiled = torch.compile(make_fx(of_tensors)(*copied()))
            compiled(*copied())
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - a compiler may fail in any way
        warnings.warn(
            f"the steps could not be compiled ({type(error).__name__}), and run as they are: slower, with the same "
            "results. torch.compile needs a C++ compiler, and on a GPU triton.",
            FastifWarning,
            stacklevel=2,
        )
        return step

    def run(some: Block, given: Batch) -> None:
        compiled(some, list(given.tensors().values()))

    return run
