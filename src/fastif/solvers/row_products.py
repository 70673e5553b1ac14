"""The inner products of Jacobian rows with each other, one parameter at a time: what the matrix of rows is summed from.

Rows come in pieces, as factors. Two pieces are multiplied by their factors, or as gradients that are formed from them,
whichever is sooner. Knows factors and memory, and no operator.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fastif import memory
from fastif.capture import Factor, Outer
from fastif.precision import wide_product
from fastif.solvers.strong_rows import formed

# What gradients that are formed may take: on a CPU, and of a GPU's memory.
BYTES, PART = 2**28, 0.1
# Rows that are multiplied with as many others. Half of the matrix is never made, but for these parts of its diagonal.
TOGETHER = {"cpu": 128, "cuda": 1024}
# Two rows are multiplied by their factors in T T' (o + i) products for a weight of o x i, formed in o i, where
# gradients are made and read besides: up to so many times o i the former is sooner.
GHOST_SHARE = {"cpu": 4.0, "cuda": 0.1}

Ends = tuple[int, int]


@dataclass(frozen=True)
class Piece:
    """Some rows of one parameter: the number of the first, how many they are, and their factors."""

    start: int
    count: int
    factors: Sequence[Factor]

    @property
    def ends(self) -> Ends:
        """The numbers of its first row, and of the first after it."""
        return self.start, self.start + self.count

    @property
    def outer(self) -> Outer | None:
        """The factor that all of it is made of, if it is one of a weight."""
        (first, *others) = self.factors
        return first if isinstance(first, Outer) and not others else None

    def formed(self, some: slice) -> Tensor:
        """Return some parts of the rows, multiplied out."""
        return formed([_cut(each, some) if isinstance(each, Outer) else each for each in self.factors])


def in_pieces(factors: Sequence[Factor], start: int, count: int) -> Iterator[Piece]:
    """Yield the factors of one parameter for `count` rows, the first of which has the number `start`, in pieces."""
    outers = [factor for factor in factors if isinstance(factor, Outer)]
    if factors and len(outers) == len(factors):
        together = TOGETHER["cuda" if outers[0].left.is_cuda else "cpu"]
        for first in range(0, count, together):
            rows = [outer.rows(first, first + together) for outer in outers]
            yield Piece(start + first, len(rows[0].left), rows)
    elif factors:  # as long as the layer is wide
        yield Piece(start, count, factors)


def row_products(pieces: list[Piece]) -> Iterator[tuple[Ends, Ends, Tensor]]:
    """Yield inner products of the rows of one parameter with those up to them: a sum for each pair of pieces.

    Where it is sooner they come from factors. Of the others gradients are formed, a part of all rows at a time, so that
    none is formed twice.
    """
    to_form: list[tuple[int, int]] = []
    for number, one in enumerate(pieces):
        for other, two in enumerate(pieces[: number + 1]):
            if one.outer is not None and two.outer is not None and ghost_is_sooner(one.outer, two.outer):
                yield one.ends, two.ends, _ghost(one.outer, two.outer)
            else:
                to_form.append((number, other))
    involved = sorted({number for pair in to_form for number in pair})
    for some in _cuts([pieces[number] for number in involved]):
        rows = {number: pieces[number].formed(some) for number in involved}
        for number, other in to_form:
            yield pieces[number].ends, pieces[other].ends, wide_product(rows[number], rows[other])
        del rows  # before there are others


def _cuts(pieces: list[Piece]) -> Iterator[slice]:
    """Yield the parts of a parameter's gradients, as many at a time as all rows may be formed in."""
    factors = [factor for piece in pieces for factor in piece.factors]
    outers = [factor for factor in factors if isinstance(factor, Outer)]
    if len({(outer.left.shape[2:], outer.right.shape[3]) for outer in outers}) != 1 or len(outers) < len(factors):
        if factors:  # as long as the layer is wide, or a weight that is used in unlike ways
            yield slice(None)
        return
    left, right = outers[0].left, outers[0].right
    groups, outputs = left.shape[2:]
    parts = max(groups, outputs)
    bytes_each = groups * outputs * right.shape[3] // parts * left.element_size() * sum(piece.count for piece in pieces)
    at_once = max(1, memory.share(left.device, PART, BYTES) // max(1, bytes_each))
    for start in range(0, parts, at_once):
        yield slice(start, start + at_once)


def _cut(factor: Outer, some: slice) -> Outer:
    """Return the factor of some parts of its gradients: outputs of every group, or groups where these are more."""
    groups, outputs = factor.left.shape[2:]
    if groups > outputs:
        return Outer(factor.name, factor.left[:, :, some], factor.right[:, :, some])
    return Outer(factor.name, factor.left[..., some], factor.right)


def ghost_is_sooner(one: Outer, two: Outer) -> bool:
    """Whether inner products are sooner had from the factors of two rows than from their gradients."""
    if one.left.shape[2] > 1:
        return False
    positions = one.left.shape[1] * two.left.shape[1]
    out, into = one.left.shape[3], one.right.shape[3]
    return positions * (out + into) <= GHOST_SHARE["cuda" if one.left.is_cuda else "cpu"] * out * into


def _ghost(one: Outer, two: Outer) -> Tensor:
    """Return the inner products of the gradients of all pairs of rows, none of which is formed."""
    positions, (others, their) = one.left.shape[1], two.left.shape[:2]
    a_row = 2 * positions * others * their * one.left.element_size()
    products = []
    for some in one.split(max(1, memory.share(one.left.device, PART, BYTES) // a_row)):
        left, right = (
            (getattr(some, side).flatten(0, 2) @ getattr(two, side).flatten(0, 2).T) for side in ("left", "right")
        )
        products.append(left.mul_(right).view(-1, positions, others, their).sum(dim=(1, 3)))
    return torch.cat(products)
