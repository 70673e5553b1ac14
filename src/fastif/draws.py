"""Whether a module draws random numbers in eval mode, so that what it gives is one of many things.

Curvature, gradients and scores would each be of other draws, and of other ones with every seed. Knows tensors and
torch's generators, and nothing of models.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from fastif.errors import ModelError

SEEDS = 8  # a dropout of a few per cent leaves so few outputs as they are with one of them, and not with all


class DrawWatch(TorchFunctionMode):
    """Within this context it is seen whether one of torch's functions draws random numbers, unless it is known."""

    def __init__(self, device: torch.device, *, is_known: bool = False) -> None:
        super().__init__()
        self._device, self._is_known = device, is_known
        self.drew = False

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Look at the generators before and after."""
        before = self._states()
        result = func(*args, **(kwargs or {}))
        self.drew = self.drew or any(not torch.equal(*pair) for pair in zip(before, self._states(), strict=True))
        return result

    def _states(self) -> list[Tensor]:
        if self.drew or self._is_known:
            return []
        cuda = [torch.cuda.get_rng_state(self._device)] if self._device.type == "cuda" else []
        return [torch.get_rng_state(), *cuda]


def require_no_draws(outputs: Callable[[], Tensor], device: torch.device) -> None:
    """Raise if outputs, each time from generators with another seed, differ by more than rounding."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        first = None
        for seed in range(SEEDS):
            torch.manual_seed(seed)
            seen = outputs()
            first = seen if first is None else first
            difference = float((seen - first).abs().max())
            if difference > 100 * torch.finfo(first.dtype).eps ** 0.75 * (1 + float(first.abs().max())):
                raise ModelError(
                    f"the outputs of the module change by {difference:.2g} with the seed of torch's random numbers, "
                    "also in eval mode: curvature, gradients and scores would each be of other draws. Look for dropout "
                    "with training=True, noise or layers that are left out at random, and switch them off: "
                    "F.dropout(x, p, training=self.training)."
                )
