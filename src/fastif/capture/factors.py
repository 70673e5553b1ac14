r"""What the gradient of each example is made of, before it is multiplied out.

For a batch of B examples with T positions each (tokens, pixels; one if there are none), every use of a parameter by a
layer gives one factor, and the gradient of example b in that parameter is the sum over its factors:

    Outer    a weight matrix     $\sum_t l_{bt} r_{bt}^\top$   (slope times input; in G groups for grouped convolutions)
    Lookup   a table of rows     $\sum_t e_{i_{bt}} g_{bt}^\top$
    Scale    a gain per feature  $\sum_t g_{bt} \odot a_{bt}$
    Shift    a bias              $\sum_t g_{bt}$

This file knows tensors, and neither models nor hooks.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fastif.precision import wide

GHOST_POSITIONS = 32  # writing a gradient to memory weighs as much as so many products


@dataclass(frozen=True)
class Outer:
    """A weight seen as a matrix (or G of them): left (B, T, G, o), right (B, T, G, i)."""

    name: str
    left: Tensor
    right: Tensor

    def gradients(self) -> Tensor:
        """Return each example's gradient, flattened: (B, G * o * i).

        >>> Outer("w", torch.tensor([[[[1.0]], [[2.0]]]]), torch.tensor([[[[3.0]], [[4.0]]]])).gradients()
        tensor([[11.]])
        """
        if self.left.shape[1:3] == (1, 1):
            return (self.left[:, 0, 0, :, None] * self.right[:, 0, 0, None, :]).flatten(1)
        if self.left.shape[2] == 1:
            return (self.left.squeeze(2).mT @ self.right.squeeze(2)).flatten(1)
        return torch.einsum("btgo,btgi->bgoi", self.left, self.right).flatten(1)

    def is_sooner_formed(self, directions: int) -> bool:
        """Whether gradients, formed once, are multiplied with so many directions sooner than their factors are."""
        positions = self.left.shape[1]
        written_for_nothing = positions == 1 and self.left.is_cuda  # a gradient as long as its products
        return (directions - 1) * positions >= GHOST_POSITIONS and not written_for_nothing

    def rows(self, start: int, stop: int) -> "Outer":
        """Return this factor for some of the examples."""
        return Outer(self.name, self.left[start:stop], self.right[start:stop])

    def split(self, examples: int) -> "list[Outer]":
        """Return this factor for so many examples at a time."""
        return [self.rows(start, start + examples) for start in range(0, len(self.left), examples)]


@dataclass(frozen=True)
class Lookup:
    """A table of `height` rows: ids (B, T), slopes (B, T, D)."""

    name: str
    ids: Tensor
    slopes: Tensor
    height: int

    def gradients(self) -> Tensor:
        """Return each example's gradient, flattened: (B, height * D), which is mostly zeros."""
        examples, _, width = self.slopes.shape
        table = self.slopes.new_zeros(examples, self.height, width)
        return table.scatter_add_(1, self.ids[..., None].expand_as(self.slopes), self.slopes).flatten(1)


@dataclass(frozen=True)
class Scale:
    """A gain for each feature: inputs and slopes (B, T, D)."""

    name: str
    inputs: Tensor
    slopes: Tensor

    def gradients(self) -> Tensor:
        """Return each example's gradient, (B, D)."""
        return (self.inputs * self.slopes).sum(dim=1, dtype=wide(self.slopes.dtype))


@dataclass(frozen=True)
class Shift:
    """A bias for each feature: slopes (B, T, D)."""

    name: str
    slopes: Tensor

    def gradients(self) -> Tensor:
        """Return each example's gradient, (B, D)."""
        return self.slopes.sum(dim=1, dtype=wide(self.slopes.dtype))


Factor = Outer | Lookup | Scale | Shift
