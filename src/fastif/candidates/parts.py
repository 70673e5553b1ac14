"""Parts: an index of which every process holds a part, made of its own examples; searched together, and merged.

What all parts have in common (lists, codes) is learned once from a sample. Knows keys and numbers of examples; who the
processes are and how they are asked is the caller's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from fastif.candidates.keys import Keys
from fastif.errors import ConfigurationError, DataError
from fastif.keeping import Tensors

LEARNED, ROWS, IDS, CLOSENESS, COUNT = "learned", "rows", "ids", "closeness", "count"
AT_ONCE = 8192  # examples whose keys are in memory
KeysOf = Callable[[Tensor], Keys]  # of the examples with these numbers


class IndexPart(Protocol):
    """What one process holds of an index."""

    def __len__(self) -> int:
        """Return the number of keys."""

    def closest(self, rows: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return closeness (more is closer) and numbers of the k closest to each row; else -inf and -1."""


@runtime_checkable
class SharedIndex(Protocol):
    """A way to look for neighbours in parts."""

    @property
    def training(self) -> int:
        """At most how many examples it learns from."""

    def learn(self, keys: Iterable[Any], /) -> Tensor:
        """Return what all parts have in common, as bytes."""

    def part(self, learned: Tensor, keys: Iterable[tuple[Tensor, Any]], /, *, name: str) -> IndexPart:
        """Make a part, of keys that come with the numbers of their examples; `name` tells it from the others."""


class PartHolder:
    """The part of one process, by the things that it is asked for.

    Args:
        index: how neighbours are searched.
        ids: the examples of this process.
        keys_of: makes their keys.
        name: of this process among the others.
    """

    def __init__(self, index: Any, ids: Tensor, keys_of: KeysOf, *, name: str) -> None:
        self._index, self._ids, self._keys_of, self._name = index, ids, keys_of, name
        self._part: IndexPart | None = None

    def sample(self) -> Iterator[Keys]:
        """Yield the keys of a random sample of this process's examples, to learn from."""
        order = torch.randperm(len(self._ids), generator=torch.Generator().manual_seed(0), device="cpu")
        for some in self._ids[order[: self._index.training].sort().values].split(AT_ONCE):
            yield self._keys_of(some)

    def build(self, sent: Tensors) -> Tensors:
        """Make the part from what was learned; keys are made a few at a time."""
        keys = ((some, self._keys_of(some)) for some in self._ids.split(AT_ONCE))
        self._part = self._index.part(sent[LEARNED], keys, name=self._name)
        return {COUNT: torch.tensor([len(self._part)])}

    def search(self, sent: Tensors, *, k: int) -> Tensors:
        """Search the part."""
        if self._part is None:
            raise ConfigurationError("the index was searched before it was built: give all processes the same index.")
        closeness, ids = self._part.closest(sent[ROWS], k)
        return {CLOSENESS: closeness, IDS: ids}


Ask = Callable[..., list[Tensors]]  # (what, tensors, further words) -> the answer of every process


class Parts:
    """All parts as one index; a `BuiltIndex`."""

    def __init__(self, ask: Ask, holder: PartHolder, index: SharedIndex) -> None:
        self._ask = ask
        learned = index.learn(holder.sample())
        self._total = sum(int(each[COUNT]) for each in ask("index", {LEARNED: learned}))

    def __len__(self) -> int:
        return self._total

    def search(self, queries: Keys, k: int) -> Tensor:
        """Return the numbers of k keys for each query, as `BuiltIndex` says."""
        rows = queries.vectors().detach().float().cpu()
        if not queries.two_sided:
            return self._closest(rows, k)
        first = self._closest(rows, k - k // 2)
        if k == 1:
            return first
        # of the k least close no more than ceil(k/2) are taken already, so that floor(k/2) are left
        last = self._closest(-rows, k)
        left = [ids[~torch.isin(ids, taken)][: k // 2] for ids, taken in zip(last, first, strict=True)]
        return torch.cat([first, torch.stack(left)], dim=1)

    def _closest(self, rows: Tensor, k: int) -> Tensor:
        answers = self._ask("search", {ROWS: rows.contiguous()}, k=k)
        return merged([each[CLOSENESS] for each in answers], [each[IDS] for each in answers], k)


def merged(closeness: list[Tensor], ids: list[Tensor], k: int) -> Tensor:
    """Return the numbers of the k closest of all parts, of equally close ones the smaller first.

    >>> merged(
    ...     [torch.tensor([[3.0, 1.0]]), torch.tensor([[2.0, 1.0]])],
    ...     [torch.tensor([[7, 9]]), torch.tensor([[4, 2]])],
    ...     3,
    ... )
    tensor([[7, 4, 2]])
    """
    near, numbers = torch.cat(closeness, dim=1), torch.cat(ids, dim=1)
    by_number = numbers.argsort(dim=1)
    near, numbers = near.gather(1, by_number), numbers.gather(1, by_number)
    order = near.argsort(dim=1, descending=True, stable=True)[:, :k]
    found = numbers.gather(1, order)
    if found.shape[1] < k or bool((found < 0).any()):
        raise DataError(
            f"the index finds fewer than {k} examples for some query. Ask for fewer, or give it more probes."
        )
    return found
