"""Which keys are closest to a query's: the seam behind which an index works, and the exact one in torch.

An `Index` is a choice of method; `build` makes of it, and of the training data's keys, something that can be searched.
This file knows keys, and neither models nor data sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from fastif.candidates.keys import Keys

NUMBERS_AT_ONCE = 2**24  # of the closeness of some queries to all keys
NUMBERS_IN_A_CHUNK = 2**26  # of keys that a query is compared with at a time: few of them, and each no trouble to hold


class BuiltIndex(Protocol):
    """An index that holds keys, numbered from 0 in the order in which they came."""

    def __len__(self) -> int:
        """Return the number of keys."""

    def search(self, queries: Keys, k: int) -> Tensor:
        """Return the numbers of k different keys for each query, int64 (len(queries), k), for k from 1 to len(self).

        One-sided keys: the k closest, the closest first. Two-sided keys: the ceil(k/2) closest, then of the others the
        floor(k/2) least close, the least close first.
        """


class Index(Protocol):
    """A way to look for neighbours."""

    def build(self, keys: Iterable[Any], /) -> BuiltIndex:
        """Take the keys, which come in chunks of one kind, and get ready to search them."""


@dataclass(frozen=True)
class ExactIndex:
    """Compare a query with every key: exact, by matrix products, on the device where the keys are.

    >>> from fastif.candidates.keys import Features
    >>> built = ExactIndex().build([Features(torch.tensor([[0.0], [9.0], [2.0], [4.0]]))])
    >>> built.search(Features(torch.tensor([[3.0], [8.0]])), 2)  # 2 and 4 are equally far from 3
    tensor([[2, 3],
            [1, 3]])
    """

    def build(self, keys: Iterable[Keys]) -> BuiltExactIndex:
        """Keep the keys."""
        return BuiltExactIndex(list(_joined(keys)))


class BuiltExactIndex:
    """Keys in chunks, which bound the memory of a search."""

    def __init__(self, chunks: list[Keys]) -> None:
        self._chunks = chunks

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def search(self, queries: Keys, k: int) -> Tensor:
        """Return the numbers of the keys that `BuiltIndex.search` asks for, of equally close ones the smaller."""
        step = max(1, NUMBERS_AT_ONCE // len(self))
        parts = [queries.rows(start, start + step) for start in range(0, len(queries), step)]
        return torch.cat([self._search(part, k) for part in parts])

    def _search(self, queries: Any, k: int) -> Tensor:
        closeness = torch.cat([queries.closeness(chunk) for chunk in self._chunks], dim=1)
        if not queries.two_sided:
            return largest(closeness, k).cpu()
        first = largest(closeness, k - k // 2)
        if k == 1:
            return first.cpu()
        closeness.scatter_(1, first, torch.inf)  # taken already, so that it is in neither half twice
        return torch.cat([first, largest(-closeness, k // 2)], dim=1).cpu()


def _joined(chunks: Iterable[Keys]) -> Iterator[Keys]:
    """Yield keys in chunks that are as large as may be: a search takes as long for a small one on a GPU."""
    group: list[Keys] = []
    for chunk in chunks:
        numbers = sum(tensor.numel() for each in (*group, chunk) for tensor in vars(each).values())
        if group and (numbers > NUMBERS_IN_A_CHUNK or _form(chunk) != _form(group[0])):
            yield _one(group)
            group = []
        group.append(chunk)
    if group:
        yield _one(group)


def _form(keys: Keys) -> list[torch.Size]:
    return [tensor.shape[1:] for tensor in vars(keys).values()]


def _one(group: Sequence[Keys]) -> Keys:
    kind: Any = type(group[0])
    return kind(**{name: torch.cat([vars(each)[name] for each in group]) for name in vars(group[0])})  # type: ignore[no-any-return]


def largest(values: Tensor, k: int) -> Tensor:
    """Return the columns of the k largest values of each row, the largest first, of equal ones the smaller column.

    Torch's own top k picks among equals in no promised order; what is below the k-th value need not be sorted.

    >>> largest(torch.tensor([[1.0, 3.0, 1.0, 3.0, 1.0]]), 3)
    tensor([[1, 3, 0]])
    """
    threshold = values.topk(k, dim=1, sorted=False).values.min(dim=1, keepdim=True).values
    above, equal = values > threshold, values == threshold
    missing = k - above.sum(dim=1, keepdim=True)
    chosen = above | (equal & (equal.cumsum(dim=1, dtype=torch.int32) <= missing))
    columns = chosen.nonzero()[:, 1].view(len(values), k)
    order = values.gather(1, columns).argsort(dim=1, descending=True, stable=True)
    return columns.gather(1, order)
