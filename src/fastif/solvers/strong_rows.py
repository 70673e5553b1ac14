r"""The strongest of many Jacobian rows, found in one pass that never holds many more than are wanted.

$\mathrm{tr}\, A A^\top = \sum_r \|a_r\|^2$, and in a model that has learned its data most rows are next to nothing:
where it is sure, the loss does not bend. So the longest rows, wherever they are, stand for nearly all of A, where as
many examples drawn at random would not. Knows factors, and neither operators nor damping.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields, replace

import torch
from torch import Tensor

from fastif.capture import Factor, Outer
from fastif.derivatives import require_finite

Chunk = dict[str, list[Factor]]  # the factors of some rows, by the name of the parameter
SLACK = 2  # rows are held until there are so many times as many as wanted; the weakest are then let go together


class Strongest:
    """The `most` longest of all rows that were added."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._total: Tensor | float = 0.0  # the sum of all squared lengths
        self.seen = 0
        self._held: list[tuple[Chunk, Tensor, Tensor]] = []  # factors, the number of each row's example, squared length
        self._count = 0
        self._floor = 0.0  # no row at or below it is among the strongest

    def add(self, chunk: Chunk, examples: Tensor) -> None:
        """Look at the rows of a chunk, one for each of these examples."""
        lengths = squared_lengths(chunk)
        self._total = self._total + lengths.sum()
        self.seen += len(lengths)
        self._hold(chunk, examples, lengths, lengths > self._floor)
        if self._count > SLACK * self.most:
            self._let_go()

    def finish(self) -> tuple[list[Chunk], list[Tensor], float]:
        """Return the rows in as few chunks as their shapes allow, their examples, and their share of the trace."""
        total = torch.as_tensor(self._total)
        require_finite(total)  # a row that holds a NaN is longer than none, and would be left out in silence
        if self._count > self.most:
            self._let_go()
        alike: dict[tuple[object, ...], list[tuple[Chunk, Tensor, Tensor]]] = defaultdict(list)
        for held in self._held:
            alike[_shapes(held[0])].append(held)
        chunks = [_joined([chunk for chunk, _, _ in some]) for some in alike.values()]
        examples = [torch.cat([ids for _, ids, _ in some]) for some in alike.values()]
        kept = sum(float(lengths.sum()) for _, _, lengths in self._held)
        return chunks, examples, kept / float(total) if total else 1.0

    def _hold(self, chunk: Chunk, examples: Tensor, lengths: Tensor, wanted: Tensor) -> None:
        rows = wanted.nonzero().flatten()
        if len(rows):
            picked = {name: [_picked(factor, rows) for factor in factors] for name, factors in chunk.items()}
            self._held.append((picked, examples[rows.to(examples.device)], lengths[rows]))
            self._count += len(rows)

    def _let_go(self) -> None:
        lengths = torch.cat([each for _, _, each in self._held])
        first = torch.argsort(lengths, descending=True, stable=True)[: self.most]  # of ties those that came first
        wanted = torch.zeros_like(lengths, dtype=torch.bool)
        wanted[first] = True
        held, self._held, self._count = self._held, [], 0
        for (chunk, examples, mine), flags in zip(held, wanted.split([len(each) for _, _, each in held]), strict=True):
            self._hold(chunk, examples, mine, flags)
        self._floor = float(lengths[first[-1]])


def squared_lengths(chunk: Chunk) -> Tensor:
    """Return the squared length of every row."""
    total: Tensor | float = 0.0
    for factors in chunk.values():
        total = total + (_by_positions(factors[0]) if _is_soon(factors) else formed(factors).square().sum(dim=1))
    assert isinstance(total, Tensor)
    return total.double()


def _is_soon(factors: list[Factor]) -> bool:
    """Whether inner products between positions are fewer numbers than the gradient that they belong to."""
    one = factors[0]
    if len(factors) > 1 or not isinstance(one, Outer) or one.left.shape[2] > 1:
        return False
    return one.left.shape[1] * (one.left.shape[3] + one.right.shape[3]) <= one.left.shape[3] * one.right.shape[3]


def _by_positions(factor: Factor) -> Tensor:
    assert isinstance(factor, Outer)
    left, right = factor.left.squeeze(2), factor.right.squeeze(2)
    if left.shape[1] == 1:
        return left.square().sum(dim=(1, 2)) * right.square().sum(dim=(1, 2))
    return ((left @ left.mT) * (right @ right.mT)).sum(dim=(1, 2))


def formed(factors: Sequence[Factor]) -> Tensor:
    """Return rows of one parameter, multiplied out: the sums of their factors."""
    rows = factors[0].gradients()
    for factor in factors[1:]:
        rows = rows + factor.gradients()
    return rows


def _tensors(factor: Factor) -> dict[str, Tensor]:
    found = {each.name: getattr(factor, each.name) for each in fields(factor)}
    return {name: value for name, value in found.items() if isinstance(value, Tensor)}


def _made_of(factor: Factor, tensors: dict[str, Tensor]) -> Factor:
    return replace(factor, **tensors)  # type: ignore[arg-type]


def _picked(factor: Factor, rows: Tensor) -> Factor:
    return _made_of(factor, {name: tensor[rows] for name, tensor in _tensors(factor).items()})


def _shapes(chunk: Chunk) -> tuple[object, ...]:
    return tuple(
        (name, type(factor), *(tensor.shape[1:] for tensor in _tensors(factor).values()))
        for name, factors in chunk.items()
        for factor in factors
    )


def _joined(chunks: list[Chunk]) -> Chunk:
    """Return the rows of chunks of the same shapes as one chunk."""

    def joined(*parts: Factor) -> Factor:
        tensors = [_tensors(part) for part in parts]
        return _made_of(parts[0], {name: torch.cat([each[name] for each in tensors]) for name in tensors[0]})

    return {name: list(map(joined, *(chunk[name] for chunk in chunks))) for name in chunks[0]}
