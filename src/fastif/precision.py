"""In which precision matrices are multiplied, and how much that may cost in digits.

On a GPU "tf32" multiplies float32 matrices with eleven bits of each number and adds in float32: scores correlate with
those of float32 to 0.999999, and come several times sooner. "float16" and "bfloat16" run the frozen layers and
the scan of the training data in half precision, with sums, losses and scores in float32; the solve stays in tf32. A CPU
does so for "bfloat16", if that is asked for and it has instructions for it (solving in float32); else it computes in
the model's dtype, whatever is asked for.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from fastif.errors import ConfigurationError, PrecisionWarning

Precision = Literal["auto", "float32", "tf32", "bfloat16", "float16"]
MOST_PARTS, LEAST_PRODUCTS, SHORTEST = 64, 2**22, 4096  # of a product on a GPU: see wide_product
HALVES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def check_precision(precision: str) -> None:
    """Raise unless this is one of the names."""
    if precision not in get_args(Precision):
        raise ConfigurationError(f"precision must be one of {', '.join(get_args(Precision))}, not {precision!r}.")


def resolve(precision: Precision, device: torch.device, dtype: torch.dtype) -> Precision:
    """Return the precision to work in: what was asked for where the device and the model's dtype have it."""
    check_precision(precision)
    if dtype == torch.float64:
        return "float32"  # asks for nothing less than the model's own
    if device.type != "cuda":
        return "bfloat16" if precision == "bfloat16" and _cpu_has_bfloat16() else "float32"
    return "tf32" if precision == "auto" else precision


def _cpu_has_bfloat16() -> bool:
    """Return whether torch multiplies bfloat16 by instructions of the CPU; without them it would take longer."""
    look = getattr(torch.cpu, "get_capabilities", None)  # an older torch does not say
    return look is not None and any(look().get(name) for name in ("avx512_bf16", "amx_bf16"))


@contextlib.contextmanager
def matmuls(precision: Precision, device: torch.device) -> Iterator[None]:
    """Within this context, float32 matrices on a GPU are multiplied in this precision."""
    if device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest" if precision == "float32" else "high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


class RoundingWatch(TorchFunctionMode):
    """Within this context it is seen whether a module computes in less than its weights have, by its own autocast."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._kind = device.type
        self._narrow: torch.dtype | None = None

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Look at what comes out; a tensor of float64 is left as it is by autocast."""
        result = func(*args, **(kwargs or {}))
        if torch.is_autocast_enabled(self._kind) and isinstance(result, Tensor):
            narrow = torch.get_autocast_dtype(self._kind)
            self._narrow = narrow if result.dtype == narrow else self._narrow
        return result

    def tell(self, outputs: Tensor, dtype: torch.dtype) -> None:
        """Warn if something, or what came out in the end, was computed in less than this."""
        if self._narrow is not None:
            seen = f"the module computes in {_name(self._narrow)} within a torch.autocast of its own"
            change = "Take the autocast out of its forward, and put it around the calls of the module where you train"
        elif outputs.is_floating_point() and torch.finfo(outputs.dtype).bits < torch.finfo(dtype).bits:
            seen = f"the module gives outputs in {_name(outputs.dtype)}"
            change = "Look in its forward for a cast such as .half(), .bfloat16() or .float(), and leave it out"
        else:
            return
        warnings.warn(
            f"{seen}, though it is evaluated in {_name(dtype)}. Derivatives are rounded on the way, so that scores are "
            f"right to few digits and products with the curvature need not be those of a symmetric matrix. {change}.",
            PrecisionWarning,
            stacklevel=2,
        )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def wide(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype to add up in: the one given, but at least float32."""
    return torch.promote_types(dtype, torch.float32)


def wide_product(left: Tensor, right: Tensor) -> Tensor:
    """Return the products of all rows of two matrices, (n, p) and (m, p), in at least float32 however narrow they are.

    On a GPU a long sum of few products would leave most of it idle: it is cut into parts that run side by side. On a
    CPU those of bfloat16 are added up in float32 and rounded to bfloat16 once, no worse than the numbers that go in.

    >>> wide_product(torch.full((1, 2), 256.0).half(), torch.full((1, 2), 256.0).half())
    tensor([[131072.]])
    """
    halves = left.dtype in HALVES.values()
    if not left.is_cuda:
        if left.dtype == right.dtype == torch.bfloat16:
            return (left @ right.T).float()
        return left.float() @ right.float().T if halves else left @ right.T.to(left.dtype)
    right = right.to(left.dtype)
    length = left.shape[1]
    parts = max(1, min(MOST_PARTS, LEAST_PRODUCTS // max(1, len(left) * len(right)), length // SHORTEST))
    while length % parts:
        parts -= 1
    one, other = left.unflatten(1, (parts, -1)).transpose(0, 1), right.unflatten(1, (parts, -1)).permute(1, 2, 0)
    if halves:
        return torch.bmm(one, other, out_dtype=torch.float32).sum(dim=0)
    return torch.bmm(one, other).sum(dim=0)
