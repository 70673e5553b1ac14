"""Copies to the GPU that a recording takes from the passes before it.

Some models make small tensors on the CPU in every pass, positions for instance, and copy them to the GPU; a CUDA graph
cannot hold such a copy. What is made on the CPU in a pass cannot depend on what is on the GPU, or the pass would have
to wait for it, so that it is the same in every pass with inputs of one shape: it is noted in a pass before, and given
in the one that is recorded. Knows calls of torch, and no model.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

MAKERS = (torch.tensor, torch.as_tensor)
COPIES = (Tensor.to, Tensor.cuda)


class HeldCopies:
    """What copies and new tensors were in one pass, to be given in their order in others like it.

    >>> held = HeldCopies()
    >>> with held.noting():
    ...     first = torch.tensor([1.0]).to(torch.float64)
    >>> with held.giving():
    ...     second = torch.tensor([1.0]).to(torch.float64)
    >>> second is first
    True
    """

    def __init__(self) -> None:
        self._made: list[Any] = []

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Within this context, note what is made; the last such pass counts."""
        self._made = []
        with _Calls(self._note):
            yield

    @contextmanager
    def giving(self) -> Iterator[None]:
        """Within this context, give what was noted in place of making it."""
        rest = iter(self._made)
        with _Calls(lambda make: next(rest)):
            yield

    def _note(self, make: Callable[[], Any]) -> Any:
        self._made.append(make())
        return self._made[-1]


class _Calls(TorchFunctionMode):
    """Hands every call that makes a tensor on the CPU or takes one from there to somebody."""

    def __init__(self, hand: Callable[[Callable[[], Any]], Any]) -> None:
        super().__init__()
        self._hand = hand

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Hand over such a call, and leave all others alone."""
        named = kwargs or {}
        if func in MAKERS or (func in COPIES and args[0].device.type == "cpu"):
            return self._hand(lambda: func(*args, **named))
        return func(*args, **named)
