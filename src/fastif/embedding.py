"""Embedding look-ups whose forward and backward derivatives agree.

Torch's backward pass leaves out the row `padding_idx` of an embedding and divides by counts with `scale_grad_by_freq`,
but its forward mode does neither; and `max_norm` writes to the weights. Products with curvature need both modes, so
that they would be of no symmetric matrix. This mode replaces the look-up by one that is the same function without
those effects.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


def needs_replacement(module: nn.Module) -> bool:
    """Return whether some embedding of the module has one of these effects."""
    return any(
        isinstance(part, nn.Embedding)
        and (part.padding_idx is not None or part.max_norm is not None or part.scale_grad_by_freq)
        for part in module.modules()
    )


class PlainEmbedding(TorchFunctionMode):
    """Within this context `F.embedding` is differentiable alike in both modes and writes to nothing.

    >>> weight = torch.ones(3, 2)
    >>> with PlainEmbedding():
    ...     rows, change = torch.func.jvp(
    ...         lambda w: F.embedding(torch.tensor([0, 2]), w, padding_idx=0), (weight,), (weight,)
    ...     )
    >>> change
    tensor([[0., 0.],
            [1., 1.]])
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Replace the look-up, leave all else alone."""
        return (_look_up if func is F.embedding else func)(*args, **(kwargs or {}))


def _look_up(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    rows = F.embedding(input, weight)
    if max_norm is not None:  # as torch's own renormalisation, which is not differentiated either
        size = rows.detach().norm(norm_type, dim=-1, keepdim=True)
        rows = rows * torch.where(size > max_norm, max_norm / (size + 1e-7), 1.0)
    if padding_idx is not None:
        padding = padding_idx % weight.shape[0]
        rows = torch.where((input == padding)[..., None], rows.detach(), rows)
    return rows
