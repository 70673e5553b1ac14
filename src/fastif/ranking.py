"""Which training examples come first for one query, and the only place that turns a sign into a word.

A score is the influence `I(z_i, z_q) = -grad(z_q)^T (H + damping I)^-1 grad(z_i)`, to first order `n` times the change
of the query's loss when one more copy of `z_i` is trained on. Hence a **negative** score is helpful (the loss falls), a
**positive** one harmful (it rises), and zero is neither.

Knows: one row of values and the training ids beside it. Does not know: models, queries, or where the values are from.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from fastif.errors import ConfigurationError, DataError, NonFiniteError, ShapeError

_HELPFUL_SIGN = -1
_HARMFUL_SIGN = +1
_BESIDE = 4  # of so many that are listed, one more has a chance to be, if scores are a little off


class Ranked(NamedTuple):
    """Training ids and their scores, the strongest first."""

    ids: Tensor
    scores: Tensor


def helpful(values: Tensor, ids: Tensor, top: int) -> Ranked:
    """The at most `top` ids with the most negative values, the most negative first.

    Fewer come back where fewer are negative. Equal values are ordered by the smaller id, at the cut as well, so that
    the answer does not depend on the order of `values`, the device, or the number of threads.

    >>> ids, scores = helpful(torch.tensor([-1.0, 0.0, -3.0, 2.0, -1.0]), torch.tensor([9, 8, 7, 6, 5]), top=2)
    >>> ids.tolist(), scores.tolist()
    ([7, 5], [-3.0, -1.0])
    """
    return _strongest(values, ids, top, _HELPFUL_SIGN)


def harmful(values: Tensor, ids: Tensor, top: int) -> Ranked:
    """The at most `top` ids with the most positive values, the most positive first; else as `helpful`.

    >>> ids, scores = harmful(torch.tensor([-1.0, 0.0, -3.0, 2.0, -1.0]), torch.tensor([9, 8, 7, 6, 5]), top=2)
    >>> ids.tolist(), scores.tolist()
    ([6], [2.0])
    """
    return _strongest(values, ids, top, _HARMFUL_SIGN)


def with_contenders(top: int) -> int:
    """How many of each sign to look at, where scores are a little off and `top` are listed.

    >>> with_contenders(100)
    125
    """
    return top + max(1, top // _BESIDE)


def contenders(values: Tensor, top: int) -> Tensor:
    """The positions of values that may be among the `top` of either sign once they are known better.

    >>> contenders(torch.tensor([-1.0, 0.5, -3.0, 2.0]), top=1).tolist()
    [0, 1, 2, 3]
    """
    count = min(len(values), with_contenders(top))
    both = torch.cat([values.topk(count, largest=largest).indices for largest in (False, True)])
    seen = torch.zeros(len(values), dtype=torch.bool).index_fill_(0, both, True)
    return seen.nonzero()[:, 0]


def _strongest(values: Tensor, ids: Tensor, top: int, sign: int) -> Ranked:
    _check(values, ids, top)
    strength = values * sign
    # A full sort of a million values for ten of them is waste: only what reaches the top-th strength is sorted. All
    # that tie with it survive, as topk itself picks among equals in no promised order.
    threshold = torch.topk(strength, min(top, len(strength)), sorted=False).values.min() if len(strength) else 0.0
    survivors = (strength >= threshold).logical_and_(strength > 0).nonzero().squeeze(1)
    survivors = survivors[torch.argsort(ids[survivors])]
    survivors = survivors[torch.argsort(strength[survivors], descending=True, stable=True)][:top]
    return Ranked(ids[survivors], values[survivors])


def _check(values: Tensor, ids: Tensor, top: int) -> None:
    if type(top) is not int or top < 1:
        raise ConfigurationError(f"top is {top!r}: how many examples to list must be a whole number of at least 1.")
    if values.dim() != 1 or values.shape != ids.shape:
        raise ShapeError(
            f"Ranking needs one row of values and of ids of the same length, got shapes {tuple(values.shape)} and "
            f"{tuple(ids.shape)}. Rank one query at a time: scores.values[q], scores.train_ids[q]."
        )
    if not values.is_floating_point() or ids.dtype != torch.int64:
        raise DataError(f"Ranking needs float values and int64 ids, got {values.dtype} and {ids.dtype}.")
    finite = torch.isfinite(values)
    if not finite.all():
        raise NonFiniteError(
            f"The score of training example {int(ids[~finite][0])} is {float(values[~finite][0])}, which has no rank. "
            "Look for a NaN in the weights or the data, or raise the damping."
        )
