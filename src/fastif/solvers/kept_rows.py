r"""The rows of the Gauss-Newton matrix's root, held as the factors that they are made of.

$G = \frac1n A^\top A$, where A stacks the rows $\Lambda_i^{1/2} J_i$ of all examples. A row is as long as a model has
parameters; its factors (inputs and slopes of each layer) are as long as the activations of one example. With them in
memory, $A v$, $A^\top u$ and $A A^\top$ need no pass through the model. Knows an operator, and how factors are
multiplied; nothing of damping.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fastif import memory, vectors
from fastif.batch import Batch
from fastif.capture import Factor, Outer
from fastif.curvature import CurvatureOperator
from fastif.errors import ConfigurationError
from fastif.factored import add_weighted_sums, inner_products
from fastif.fitting import fitting
from fastif.formed import add_formed_sums, bytes_of_unit, cuts, formed_products
from fastif.precision import wide_product
from fastif.solvers.strong_rows import Chunk, Strongest, formed
from fastif.vectors import Block

# What gradients that are formed may take: for the matrix of rows on a CPU, and for everything of a GPU's memory.
BYTES, PART = 2**28, 0.1
# Rows that are multiplied with as many others. Half of the matrix is never made, but for these parts of its diagonal.
TOGETHER = {"cpu": 128, "cuda": 1024}
# Two rows are multiplied by their factors in T T' (o + i) products for a weight of o x i, formed in o i, where
# gradients are made and read besides: up to so many times o i the former is sooner.
GHOST_SHARE = {"cpu": 4.0, "cuda": 0.1}


Ends = tuple[int, int]


class KeptRows:
    """All rows of an operator, in the order of its batches; or the `most` longest of them."""

    def __init__(self, operator: CurvatureOperator, most: int | None = None) -> None:
        self.operator = operator
        self._chunks: list[Chunk] = []
        examples: list[Tensor] = []
        strongest = None if most is None else Strongest(most)
        done = 0
        for batch in operator.batches():
            for ids, chunks in fitting(self._captured, batch):
                if strongest is None:
                    self._chunks += chunks
                    examples += [ids] * len(chunks)
                else:
                    operator.progress("strongest rows", done, operator.examples)
                    for chunk in chunks:
                        strongest.add(chunk, ids)
                done += len(ids)
        self.seen, self.share_of_trace = sum(map(len, examples)), 1.0
        if strongest is not None:
            operator.progress("strongest rows", done, operator.examples)
            self._chunks, examples, self.share_of_trace = strongest.finish()
            self.seen = strongest.seen
        self.examples = torch.cat(examples)  # the number of each row's example
        self.counts = [len(ids) for ids in examples]
        self.count = len(self.examples)

    def _captured(self, batch: Batch) -> tuple[Tensor, list[Chunk]]:
        jacobian = self.operator.jacobian
        point = jacobian.at(batch)
        chunks = []
        for cotangents, signs in jacobian.bends(point):
            factors = point.factors(cotangents)
            if factors is None:
                raise ConfigurationError("layers that depend on the data cannot be kept: use ConjugateGradient().")
            if bool((signs < 0).any()):
                raise ConfigurationError("the loss is not convex in the outputs: use fastif.ConjugateGradient().")
            chunk: Chunk = {}
            for factor in factors:
                chunk.setdefault(factor.name, []).append(factor)
            chunks.append(chunk)
        return batch.ids, chunks

    def times(self, block: Block) -> Tensor:
        """Return A v for every vector v of a block, (width, rows)."""
        products = []
        for chunk, count in zip(self._chunks, self.counts, strict=True):
            total = next(iter(block.values())).new_zeros(vectors.width(block), count)
            for factor in _factors(chunk):
                total += _multiplied(factor, block[factor.name])
            products.append(total)
        return torch.cat(products, dim=1)

    def summed(self, weights: Tensor, like: Block) -> Block:
        r"""Return $A^\top u$ for every row u of the weights, (width, rows)."""
        total = {name: tensor.new_zeros(tensor.shape) for name, tensor in like.items()}
        for chunk, theirs in zip(self._chunks, weights.split(self.counts, dim=1), strict=True):
            for factor in _factors(chunk):
                if isinstance(factor, Outer) and factor.is_sooner_formed(len(weights)):
                    add_formed_sums(total[factor.name], factor, theirs, part=PART)
                else:
                    add_weighted_sums(total, factor, theirs)
        return {name: tensor.view_as(like[name]) for name, tensor in total.items()}

    def gram(self) -> Tensor:
        r"""Return $A A^\top$, (rows, rows) in float64."""
        parameters = self.operator.model.parameters
        device = next(iter(parameters.values())).device
        gram = torch.zeros(self.count, self.count, dtype=torch.float64, device=device)
        done, size = 0, self.operator.size
        for name, tensor in parameters.items():
            self.operator.progress("curvature matrix", done, size)
            for (start, stop), (other, end), product in _products(list(self._pieces(name))):
                gram[start:stop, other:end] += product
            done += tensor.numel()
        self.operator.progress("curvature matrix", size, size)
        return torch.tril(gram) + torch.tril(gram, -1).T

    def _pieces(self, name: str) -> Iterator["_Piece"]:
        """Yield the factors of one parameter, those of some rows at a time."""
        start = 0
        for chunk, count in zip(self._chunks, self.counts, strict=True):
            factors = chunk.get(name, [])
            outers = [factor for factor in factors if isinstance(factor, Outer)]
            if factors and len(outers) == len(factors):
                together = TOGETHER["cuda" if outers[0].left.is_cuda else "cpu"]
                for first in range(0, count, together):
                    rows = [outer.rows(first, first + together) for outer in outers]
                    yield _Piece(start + first, len(rows[0].left), rows)
            elif factors:  # as long as the layer is wide
                yield _Piece(start, count, factors)
            start += count


@dataclass(frozen=True)
class _Piece:
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
        """Return some units of the rows, multiplied out."""
        return formed([each.of_units(some) if isinstance(each, Outer) else each for each in self.factors])


def _products(pieces: list[_Piece]) -> Iterator[tuple[Ends, Ends, Tensor]]:
    """Yield inner products of the rows of one parameter with those up to them: a sum for each pair of pieces.

    Where it is sooner they come from factors. Of the others gradients are formed, in some units for all rows at a time,
    so that none is formed twice.
    """
    to_form: list[tuple[_Piece, _Piece]] = []
    for number, one in enumerate(pieces):
        for two in pieces[: number + 1]:
            if one.outer is not None and two.outer is not None and ghost_is_sooner(one.outer, two.outer):
                yield one.ends, two.ends, _ghost(one.outer, two.outer)
            else:
                to_form.append((one, two))
    involved = {piece.start: piece for pair in to_form for piece in pair}
    for some in _cuts(list(involved.values())):
        rows = {start: piece.formed(some) for start, piece in involved.items()}
        for one, two in to_form:
            yield one.ends, two.ends, wide_product(rows[one.start], rows[two.start])


def _cuts(pieces: list[_Piece]) -> Iterator[slice]:
    """Yield the units of a parameter, as many at a time as all rows may be formed in."""
    if not pieces:
        return
    first = pieces[0].factors[0]
    if not all(isinstance(each, Outer) for piece in pieces for each in piece.factors):
        yield slice(None)
        return
    assert isinstance(first, Outer)
    bytes_each = bytes_of_unit(first) * sum(piece.count for piece in pieces)
    yield from cuts(first.units, max(1, memory.share(first.left.device, PART, BYTES) // bytes_each))


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


def _multiplied(factor: Factor, some: Tensor) -> Tensor:
    """Return the inner products of rows with vectors, (width, rows), in the sooner of the two ways."""
    if not (isinstance(factor, Outer) and factor.is_sooner_formed(len(some))):
        return inner_products(factor, some)
    return formed_products(factor, some, part=PART)


def _factors(chunk: Chunk) -> Iterator[Factor]:
    for factors in chunk.values():
        yield from factors
