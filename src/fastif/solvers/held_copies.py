"""Copies to the GPU that a recording takes from the passes before it.

Some models make small tensors on the CPU in every pass, positions for instance, and copy them to the GPU; a CUDA graph
cannot hold such a copy. What is made on the CPU in a pass cannot depend on what is on the GPU, or the pass would have
to wait for it, so that it is the same in every pass with inputs of one shape, but for what the first makes once and for
all: it is noted in the passes before, of which the last two must agree, and given in the one that is recorded. In the
forward derivative of a product with a number, torch makes such a copy itself, out of reach: numbers become tensors on
the GPU first. Knows calls of torch, and no model.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import get_unwrapped, is_batchedtensor, is_functorch_wrapped_tensor
from torch.overrides import TorchFunctionMode

MAKERS = (torch.tensor, torch.as_tensor)
COPIES = (Tensor.to, Tensor.cuda)
DIVISIONS = (Tensor.__truediv__, Tensor.div, Tensor.true_divide, torch.div, torch.true_divide)
PRODUCTS = (Tensor.__mul__, Tensor.__rmul__, Tensor.mul, torch.mul, *DIVISIONS)


class HeldCopies:
    """What copies and new tensors were in one pass, to be given in their order in others like it.

    >>> held = HeldCopies()
    >>> for _ in range(2):
    ...     with held.noting():
    ...         noted = torch.tensor([1.0]).to(torch.float64)
    >>> with held.giving():
    ...     given = torch.tensor([1.0]).to(torch.float64)
    >>> given is noted
    True
    """

    def __init__(self) -> None:
        self._made: list[Any] | None = None
        self._agrees = False

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Within this context, note what is made, and whether it is what the pass before made."""
        made: list[Any] = []

        def note(make: Callable[[], Any]) -> Any:
            result = make()
            made.append(_plain(result))
            return result

        with _Calls(note):
            yield
        self._agrees = self._made is not None and _are_equal(self._made, made)
        self._made = made

    @contextmanager
    def giving(self) -> Iterator[None]:
        """Within this context, give what was noted in place of making it."""
        if not self._agrees:
            raise RuntimeError("what is made on the CPU differs from pass to pass.")
        rest = deque(self._made or ())

        def give(make: Callable[[], Any]) -> Any:
            if not rest:
                raise RuntimeError("more tensors are made on the CPU in a pass than in the one before it.")
            return rest.popleft()

        with _Calls(give):
            yield
        if rest:
            raise RuntimeError("fewer tensors are made on the CPU in a pass than in the one before it.")


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
        is_new = func in MAKERS and not isinstance(args[0], Tensor)
        if is_new or (func in COPIES and args[0].device.type == "cpu"):
            return self._hand(lambda: func(*args, **named))
        if func in PRODUCTS and not named and _is_with_number(*args):
            return func(args[0], torch.full((), args[1], dtype=args[0].dtype, device=args[0].device))
        return func(*args, **named)


def _plain(made: Any) -> Any:
    """Return a tensor without what derivatives wrap around everything that is made within them, gone after a pass."""
    while isinstance(made, Tensor) and is_functorch_wrapped_tensor(made):
        if is_batchedtensor(made):
            raise RuntimeError("a tensor that is made on the CPU depends on the examples of a pass.")
        made = get_unwrapped(made)
    return made


def _are_equal(one: list[Any], other: list[Any]) -> bool:
    def same(first: Any, second: Any) -> bool:
        alike = first.shape == second.shape and first.dtype == second.dtype and first.device == second.device
        return alike and (first.is_meta or torch.equal(first, second))

    return len(one) == len(other) and all(map(same, one, other))


def _is_with_number(one: Any, other: Any) -> bool:
    # torch computes with a number in float32 at least, and with a tensor in its own dtype
    is_wide = isinstance(one, Tensor) and one.dtype in (torch.float32, torch.float64)
    return is_wide and isinstance(other, int | float)
