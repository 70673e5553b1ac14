"""Embedding look-ups whose forward and backward derivatives agree.

Torch's backward pass leaves out the row `padding_idx` of an embedding and divides by counts with `scale_grad_by_freq`,
but its forward mode does neither; and `max_norm` writes to the weights. Products with curvature need both modes, so
that they would be of no symmetric matrix. This mode replaces the look-up by one that is the same function without
those effects. A bag of embeddings, which torch can differentiate once only, is made of such look-ups. The functions are
watched and not the modules, as any module may call them.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode


class PlainEmbedding(TorchFunctionMode):
    """Within this context `F.embedding` and `F.embedding_bag` are differentiable alike in both modes and write nothing.

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
        if func is F.embedding:
            func = _look_up
        elif func is F.embedding_bag:
            func = _bag
        return func(*args, **(kwargs or {}))


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
    if max_norm is not None:
        rows = _shortened(rows, max_norm, norm_type)
    if padding_idx is not None:
        padding = padding_idx % weight.shape[0]
        rows = torch.where((input == padding)[..., None], rows.detach(), rows)
    return rows


def _shortened(rows: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Return rows of at most this norm: as torch's own renormalisation, which is not differentiated either."""
    size = rows.detach().norm(norm_type, dim=-1, keepdim=True)
    return rows * torch.where(size > max_norm, max_norm / (size + 1e-7), 1.0)


def _bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    if input.ndim != 2 or offsets is not None or mode not in BAGS or (per_sample_weights is not None and mode != "sum"):
        # bags of unequal lengths, or what torch refuses
        weight = weight if max_norm is None else _shortened(weight, max_norm, norm_type)
        how: dict[str, Any] = {"include_last_offset": include_last_offset, "padding_idx": padding_idx, "mode": mode}
        return F.embedding_bag(input, weight, offsets, per_sample_weights=per_sample_weights, **how)
    rows = _look_up(input, weight, max_norm=max_norm, norm_type=norm_type)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[..., None]
    taken = torch.ones_like(input, dtype=torch.bool)
    if padding_idx is not None:
        taken = input != padding_idx % weight.shape[0]
    return BAGS[mode](rows, taken[..., None])


def _mean(rows: Tensor, taken: Tensor) -> Tensor:
    return _sum(rows, taken) / taken.sum(dim=1).clamp(min=1)


def _sum(rows: Tensor, taken: Tensor) -> Tensor:
    return torch.where(taken, rows, 0.0).sum(dim=1)


def _largest(rows: Tensor, taken: Tensor) -> Tensor:
    largest = torch.where(taken, rows, -torch.inf).max(dim=1).values
    return torch.where(taken.any(dim=1), largest, 0.0)  # of nothing it is zero


BAGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"mean": _mean, "sum": _sum, "max": _largest}
