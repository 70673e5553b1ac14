r"""Slices: how strongly training points help and harm each part of the queries, and whether parts are moved alike.

For every slice the number and the mean |I| of its helpful and of its harmful edges (`edges.py`). For every two slices
the Pearson correlation of $\bar I_{i,1}$ and $\bar I_{i,2}$ over the training points i that have an edge to both, with
$\bar I_{i,s}$ the mean signed influence over the edges of point i to queries of slice s, as in the paper; and how many
such points there are. What has no correlation has a reason. Knows edges and names, and nothing of texts or pictures.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from fastif import metrics
from fastif.apps.edges import Edges, Flags, Floats, Integers
from fastif.errors import DataError, EmptyDataError

ALL = "all"  # the name of the only slice where queries have none
FEWEST = 3  # points; through two there is always a line
MOST_SLICES = 200


@dataclass(frozen=True)
class Kind:
    """The helpful or the harmful edges of a slice; no mean where there is none."""

    edges: int
    mean: float | None


@dataclass(frozen=True)
class Slice:
    """One part of the queries: its number of queries, of training points with an edge to it, and its edges."""

    name: str
    queries: int
    train_points: int
    helpful: Kind
    harmful: Kind


@dataclass(frozen=True)
class Pair:
    """Two slices: how many training points touch both, and the correlation over them, or why there is none."""

    first: str
    second: str
    points: int
    correlation: float | None
    reason: str | None


@dataclass(frozen=True)
class Comparison:
    """All slices, and every two of them, a slice with itself among these.

    Args:
        slices: in the order of their first query, those without a query last.
        pairs: `len(slices) * (len(slices) + 1) / 2` of them.
        shared: of the training points that touch any slice, how many touch two at least.
        train_points: how many touch any.
        choice: in words, how the edges were chosen.
        equal_counts: whether that choice sets how many edges are helpful and harmful.
    """

    slices: tuple[Slice, ...]
    pairs: tuple[Pair, ...]
    shared: int
    train_points: int
    choice: str
    equal_counts: bool

    def pair(self, first: str, second: str) -> Pair:
        """Return what is known of two slices, in either order."""
        for pair in self.pairs:
            if {first, second} == {pair.first, pair.second}:
                return pair
        raise DataError(f"there are no slices {first!r} and {second!r}, only {', '.join(s.name for s in self.slices)}.")

    def as_json(self) -> dict[str, Any]:
        """Return all of it as JSON can hold it."""
        return asdict(self)


def compare_slices(edges: Edges, slices: Sequence[str], *, empty: Sequence[str] = ()) -> Comparison:
    """Compare the parts of the queries.

    Args:
        edges: as `choose_edges` makes them.
        slices: the name of the slice of each query.
        empty: names of slices that have no query here, so that they are told of and not forgotten.

    >>> from fastif import Scores
    >>> from fastif.apps.edges import choose_edges
    >>> values = torch.tensor([[-3.0, 1.0, 2.0], [-6.0, 2.0, 4.0]])
    >>> edges = choose_edges(Scores(values, torch.arange(3).expand(2, 3)))
    >>> compare_slices(edges, ["a", "b"]).pair("a", "b")
    Pair(first='a', second='b', points=3, correlation=1.0, reason=None)
    """
    names = list(dict.fromkeys(slices))
    _check(edges, slices, names)
    names += [name for name in dict.fromkeys(empty) if name not in names]
    numbers = {name: number for number, name in enumerate(names)}
    of_query = np.array([numbers[name] for name in slices], dtype=np.int64)
    of_edge = of_query[edges.queries]
    _, points = np.unique(edges.train_ids, return_inverse=True)
    means, touched = _means(edges, points, of_edge, len(names))
    told = tuple(
        _slice(name, int((of_query == number).sum()), int(touched[:, number].sum()), edges.values[of_edge == number])
        for number, name in enumerate(names)
    )
    pairs = tuple(
        _pair(told[one], told[other], means[:, [one, other]], touched[:, one] & touched[:, other])
        for one in range(len(names))
        for other in range(one, len(names))
    )
    shared = int((touched.sum(axis=1) > 1).sum())
    return Comparison(told, pairs, shared, len(touched), edges.choice, edges.equal_counts)


def _means(edges: Edges, points: Integers, of_edge: Integers, slices: int) -> tuple[Floats, Flags]:
    """Return the mean influence of each training point on each slice, and whether it has any edge to it."""
    count = int(points.max()) + 1 if len(points) else 0
    cells = points * slices + of_edge
    sums = np.bincount(cells, edges.values, minlength=count * slices).reshape(count, slices)
    numbers = np.bincount(cells, minlength=count * slices).reshape(count, slices)
    return sums / np.maximum(numbers, 1), numbers > 0


def _slice(name: str, queries: int, train_points: int, values: Floats) -> Slice:
    helpful, harmful = values[values < 0], values[values > 0]
    return Slice(name, queries, train_points, _kind(helpful), _kind(harmful))


def _kind(values: Floats) -> Kind:
    return Kind(len(values), float(np.abs(values).mean()) if len(values) else None)


def _pair(first: Slice, second: Slice, means: Floats, both: Flags) -> Pair:
    points = int(both.sum())
    reason = next((f"{it.name} has no query" for it in (first, second) if not it.queries), None)
    if reason is None and points < FEWEST:
        reason = f"{points} training points touch both, and a correlation needs {FEWEST}"
    if reason is not None:
        return Pair(first.name, second.name, points, None, reason)
    x, y = torch.from_numpy(means[both]).T
    constant = next((it.name for it, column in ((first, x), (second, y)) if column.min() == column.max()), None)
    if constant is not None:
        return Pair(first.name, second.name, points, None, f"all {points} points have the same mean on {constant}")
    # a slice with itself is 1 by definition, where rounding would say a little less
    correlation = 1.0 if first.name == second.name else metrics.pearson(x, y)
    return Pair(first.name, second.name, points, correlation, None)


def _check(edges: Edges, slices: Sequence[str], names: list[str]) -> None:
    if len(slices) != edges.total:
        raise DataError(f"{len(slices)} slice names for {edges.total} queries: give one name for each query.")
    if not len(slices):
        raise EmptyDataError("there is no query, so that there is no slice to tell of.")
    if len(names) > MOST_SLICES:
        raise DataError(
            f"the queries have {len(names)} different slices, and more than {MOST_SLICES} cannot be read as parts of "
            "the data. Name a column with fewer values."
        )
