r"""Keys: what examples are compared by when candidates are looked for, and how close two of them are.

Two kinds: features, which are close where their distance is small; and gradients of the model's last linear layer, its
head, whose inner products are the influence that this layer alone would have. This file knows tensors and no model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fastif.errors import ModelError

NUMBERS_AT_ONCE = 2**24  # of the products between positions


@dataclass(frozen=True)
class Features:
    r"""One vector for each example, `values` (n, d); close means a small $\|x_q - x_i\|^2$.

    >>> Features(torch.tensor([[0.0, 3.0]])).closeness(Features(torch.tensor([[4.0, 0.0], [0.0, 2.0]])))
    tensor([[-25.,  -1.]])
    """

    values: Tensor
    two_sided = False  # what is far away is of no interest

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, start: int, stop: int) -> Features:
        """Return the keys from `start` up to `stop`."""
        return Features(self.values[start:stop])

    def closeness(self, others: Features) -> Tensor:
        """Return minus the squared distances to the others, (len(self), len(others))."""
        _check_sizes([self, others])
        # from an origin among the others, as far from zero the squares would swallow the differences
        origin = others.values[:1]
        here, there = self.values - origin, others.values - origin
        return 2 * here @ there.T - here.square().sum(dim=1, keepdim=True) - there.square().sum(dim=1)

    def vectors(self) -> Tensor:
        """Return one vector for each example, for an index that knows nothing but vectors."""
        return self.values

    @classmethod
    def mean(cls, parts: Sequence[Features]) -> Features:
        """Return the mean of all as one key."""
        _check_sizes(parts)
        return cls(torch.cat([part.values for part in parts]).mean(dim=0, keepdim=True))


@dataclass(frozen=True)
class HeadGradients:
    r"""The gradient in the head's weight and bias, $\sum_t g_t \otimes [h_t, 1]$, kept in its factors.

    `slopes` (n, T, C) holds g, the gradient of an example's loss in the outputs of the head, and `hidden` (n, T, d + 1)
    what the head was applied to, with a 1 for the bias where it has one. T counts the positions of an example that the
    head was applied to, one for most classifiers. Inner products come from the factors,
    $\sum_{t,s} (g_{qt} \cdot g_{is}) (1 + h_{qt} \cdot h_{is})$, and no outer product is formed.

    With the identity in place of the curvature and no other layer, $I = -\langle G_q, G_i \rangle$: a large positive
    product is helpful, a large negative one harmful, and both ends are of interest.

    >>> one = HeadGradients(torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[3.0, 1.0]]]))
    >>> one.closeness(one).item(), one.vectors().square().sum().item()
    (50.0, 50.0)
    """

    slopes: Tensor
    hidden: Tensor
    two_sided = True

    def __len__(self) -> int:
        return len(self.slopes)

    def rows(self, start: int, stop: int) -> HeadGradients:
        """Return the keys from `start` up to `stop`."""
        return HeadGradients(self.slopes[start:stop], self.hidden[start:stop])

    def closeness(self, others: HeadGradients) -> Tensor:
        """Return the inner products with the others, (len(self), len(others))."""
        total = self.slopes.new_zeros(len(self), len(others))
        step = max(1, NUMBERS_AT_ONCE // max(1, len(self) * others.slopes.shape[0] * others.slopes.shape[1]))
        for slopes, hidden in zip(self.slopes.split(step, dim=1), self.hidden.split(step, dim=1), strict=True):
            products = torch.einsum("qsc,itc->qsit", slopes, others.slopes)
            total += (products * torch.einsum("qsd,itd->qsit", hidden, others.hidden)).sum(dim=(1, 3))
        return total

    def vectors(self) -> Tensor:
        """Return the gradients themselves, (n, C (d + 1)), for an index that knows nothing but vectors."""
        return torch.einsum("ntc,ntd->ncd", self.slopes, self.hidden).flatten(1)

    @classmethod
    def mean(cls, parts: Sequence[HeadGradients]) -> HeadGradients:
        """Return the mean of all as one key, in which every position of every example is a position."""
        slopes = torch.cat([part.slopes.flatten(0, 1) for part in parts])
        hidden = torch.cat([part.hidden.flatten(0, 1) for part in parts])
        return cls(slopes[None] / sum(map(len, parts)), hidden[None])


Keys = Features | HeadGradients


def _check_sizes(parts: Sequence[Features]) -> None:
    sizes = sorted({part.values.shape[1] for part in parts})
    if len(sizes) > 1:
        raise ModelError(
            f"some examples have {sizes[0]} features and others {sizes[-1]}, so that there is no distance between "
            "them. Pad all to one length, or name with features= a module whose output does not depend on the length."
        )
