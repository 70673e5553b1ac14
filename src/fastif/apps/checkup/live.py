r"""How many bytes of tensors live at the worst moment of a computation, counted on a small one and carried to a large.

Every operation that torch runs is seen where it is dispatched, below `vmap` and forward mode; the storages it makes are
added, and taken off when they are freed. At operation t the sum is $a_t + b_t k + c_t r + d_t r k$ for r examples
and k vectors, as every tensor is made of parameters or activations, for each vector or once. Four small runs give the
four numbers, and the peak for any r and k is the largest of the sums, with no need to run it. What is made and freed
inside one operation is not seen. Knows no model.
"""

import gc
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ROWS = (3, 6)
VECTORS = (2, 3)


class LiveBytes(TorchDispatchMode):
    """Within this context, `line` gets the bytes alive after every operation that made numbers that are not whole.

    >>> import torch
    >>> with LiveBytes("cpu") as seen:
    ...     x = torch.zeros(1000)  # 4,000 bytes
    ...     y = x + 1
    ...     del y
    ...     z = x[:10]
    >>> seen.line, seen.peak
    ([4000, 8000], 8000)
    """

    def __init__(self, device: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._device = device
        self._storages: dict[int, tuple[Any, int]] = {}
        self._now = 0
        self.line: list[int] = []

    @property
    def peak(self) -> int:
        """The largest sum."""
        return max(self.line, default=0)

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run the operation and count what it made."""
        result = func(*args, **(kwargs or {}))
        made_numbers = False
        given = {tensor.untyped_storage()._cdata for tensor in _tensors((args, kwargs))}
        for tensor in _tensors(result):
            storage = tensor.untyped_storage()
            key = storage._cdata
            if tensor.device.type == self._device and key not in given and key not in self._storages:
                size = storage.nbytes()
                self._storages[key] = weakref.ref(storage, partial(self._free, key)), size
                self._now += size
                made_numbers |= tensor.is_floating_point()
        if made_numbers:  # putting a batch together takes as many whole-number operations as it has examples
            self.line.append(self._now)
        return result

    def _free(self, key: int, _: object) -> None:
        self._now -= self._storages.pop(key)[1]


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def line_of(function: Callable[[], object], device: str) -> np.ndarray:
    """Return the bytes alive after every operation of a function; two runs of the same operations give equal lines."""
    enabled = gc.isenabled()
    gc.disable()  # it would free what hangs in circles at a moment of its own
    try:
        with LiveBytes(device) as seen:
            kept = function()
        del kept
    finally:
        if enabled:
            gc.enable()
    return np.array(seen.line, dtype=np.float64)


def peak_at(lines: dict[tuple[int, int], np.ndarray], rows: int, vectors: int, tangents: int) -> float:
    """Return the peak for so many rows and vectors, from lines by (rows, vectors); `tangents` go through together.

    With lines for one number of vectors alone, all that depends on none of the rows is taken to be vectors, and all
    that does to be tangents: an upper bound.

    >>> lines = {(r, k): np.array([10.0 + 5 * k + 3 * r + r * k, 7.0]) for r in (2, 4) for k in (2, 3)}
    >>> peak_at(lines, rows=10, vectors=8, tangents=8), 10 + 5 * 8 + 3 * 10 + 10 * 8
    (160.0, 160)
    """
    counts, widths = sorted({r for r, _ in lines}), sorted({k for _, k in lines})
    r1, r2 = counts[0], counts[-1]
    shortest = min(map(len, lines.values()))
    if shortest != max(map(len, lines.values())):  # another course for other sizes: the peaks alone can be compared
        lines = {key: line.max(keepdims=True) for key, line in lines.items()}
    slope = {k: (lines[r2, k] - lines[r1, k]) / max(1, r2 - r1) for k in widths}  # zero if there is one number of rows
    start = {k: lines[r1, k] - r1 * slope[k] for k in widths}
    if len(widths) == 1:
        k = widths[0]
        return float((start[k] * vectors / k + slope[k] * rows * tangents / k).max())
    k1, k2 = widths
    for_vectors = _line(start, k1, k2, vectors)
    for_rows = _line(slope, k1, k2, tangents)
    return float((for_vectors + rows * for_rows).max())


def _line(values: dict[int, np.ndarray], k1: int, k2: int, k: int) -> np.ndarray:
    """Return what lies on the line through the values at k1 and k2, at k."""
    result: np.ndarray = values[k1] + (values[k2] - values[k1]) * (k - k1) / (k2 - k1)
    return result
