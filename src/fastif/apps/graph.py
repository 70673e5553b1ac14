"""The graph of influence: queries on a circle, one arc a slice, and training points inside it where they are drawn to.

The paper's circular bipartite layout. Each training point lies at the weighted geometric median of the queries that it
influences, weighted by |I|, within a disc inside the circle; apart for its helpful and for its harmful edges, so that
a point that has both lies in two places. A point near a slice acts on that slice; one in the middle acts on several.
Training points that are split by a slice of their own get a ring each: the direction of a point is that of its median,
and its depth in the ring says how deep in the disc that lies. Knows edges and names; pictures are drawn elsewhere.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fastif.apps.edges import Edges, Floats, Integers
from fastif.apps.layout import weighted_medians
from fastif.errors import DataError, EmptyDataError

CIRCLE = 1.0  # the radius on which queries lie
DISC = 2 / 3  # the radius within which training points lie, beside the circle as in the paper
GAP = math.radians(6)  # between two arcs
MOST_GAPS = 0.25  # of the circle, for all gaps together
INNERMOST = 0.3  # where the first ring begins, beside the disc
RING_GAP = 0.25  # between rings, beside the width of one
MOST_RINGS = 12

Sign = Literal["helpful", "harmful"]


@dataclass(frozen=True)
class Arc:
    """The part of the circle on which the queries of a slice lie, by its angles, which fall: clockwise from the top."""

    name: str
    start: float
    end: float
    queries: int

    @property
    def middle(self) -> float:
        """The angle in its middle."""
        return (self.start + self.end) / 2


@dataclass(frozen=True)
class Ring:
    """Where the training points of one slice of theirs lie, and how many there are in the training data."""

    name: str
    inner: float
    outer: float
    train_points: int


@dataclass(frozen=True, eq=False)
class Side:
    """The helpful or the harmful half of the graph.

    Args:
        sign: which half.
        edges: its edges.
        nodes: for each edge, the row of its training point in what follows.
        train_ids: the training points that have an edge here.
        positions: (n, 2), where they lie.
        strength: (n,), the sum of |I| over the edges of each.
        rings: (n,), the number of the ring of each; zeros where there are no rings.
    """

    sign: Sign
    edges: Edges
    nodes: Integers
    train_ids: Integers
    positions: Floats
    strength: Floats
    rings: Integers


@dataclass(frozen=True, eq=False)
class Graph:
    """Everything that a picture needs, in the coordinates of a circle of radius one."""

    slices: tuple[str, ...]
    places: Floats
    arcs: tuple[Arc, ...]
    helpful: Side
    harmful: Side
    rings: tuple[Ring, ...] = ()

    @property
    def sides(self) -> tuple[Side, Side]:
        """Both halves."""
        return self.helpful, self.harmful

    @property
    def edges(self) -> int:
        """How many edges there are."""
        return len(self.helpful.edges) + len(self.harmful.edges)

    @property
    def train_points(self) -> int:
        """How many training points have an edge."""
        return len(np.union1d(self.helpful.train_ids, self.harmful.train_ids))


def lay_out(edges: Edges, slices: Sequence[str], *, train_slices: Sequence[str] | None = None) -> Graph:
    """Return the layout of a graph.

    Args:
        edges: as `choose_edges` makes them.
        slices: the name of the slice of each query.
        train_slices: the name of the slice of each training point of the training data, by its number; then each such
            slice gets a ring.
    """
    if len(slices) != edges.total:
        raise DataError(f"{len(slices)} slice names for {edges.total} queries: give one name for each query.")
    if not edges.total:
        raise EmptyDataError("there is no query, so that there is nothing to lay out.")
    arcs, places = _on_circle(slices)
    rings = () if train_slices is None else _rings(train_slices, edges)
    numbers = {ring.name: number for number, ring in enumerate(rings)}

    def side(sign: Sign, chosen: Edges) -> Side:
        train_ids, nodes = np.unique(chosen.train_ids, return_inverse=True)
        weights = np.abs(chosen.values)
        positions = weighted_medians(places[chosen.queries], weights, nodes, radius=DISC)
        strength: Floats = np.bincount(nodes, weights, minlength=len(train_ids)).astype(np.float64)
        ring_of = np.zeros(len(train_ids), dtype=np.int64)
        if train_slices is not None:
            ring_of = np.array([numbers[train_slices[index]] for index in train_ids], dtype=np.int64)
            positions = _in_rings(positions, ring_of, rings)
        return Side(sign, chosen, nodes, train_ids, positions, strength, ring_of)

    halves = side("helpful", edges.helpful()), side("harmful", edges.harmful())
    return Graph(tuple(slices), places, arcs, *halves, rings)


def _on_circle(slices: Sequence[str]) -> tuple[tuple[Arc, ...], Floats]:
    """Return an arc for each slice, as long as its share of the queries, and where each query lies."""
    members: dict[str, list[int]] = {}
    for query, name in enumerate(slices):
        members.setdefault(name, []).append(query)
    turn = 2 * math.pi
    gap = min(GAP, MOST_GAPS * turn / len(members)) if len(members) > 1 else 0.0
    width = (turn - gap * len(members)) / len(slices)
    angles = np.empty(len(slices))
    arcs = []
    start = turn / 4 - gap / 2
    for name, queries in members.items():
        end = start - width * len(queries)
        angles[queries] = start - width * (np.arange(len(queries)) + 0.5)
        arcs.append(Arc(name, start, end, len(queries)))
        start = end - gap
    return tuple(arcs), CIRCLE * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def _rings(train_slices: Sequence[str], edges: Edges) -> tuple[Ring, ...]:
    """Return a ring for each slice that has an edge; the one with the fewest points is innermost, where space is."""
    if len(edges) and int(edges.train_ids.max()) >= len(train_slices):
        raise DataError(
            f"{len(train_slices)} slice names of training points, and there is an edge of training point "
            f"{int(edges.train_ids.max())}: give one name for each training point, by its number."
        )
    touched = np.unique(edges.train_ids).tolist()
    counts: dict[str, int] = {}
    for index in touched:
        counts[train_slices[index]] = counts.get(train_slices[index], 0) + 1
    if len(counts) > MOST_RINGS:
        raise DataError(
            f"the training points have {len(counts)} different slices, and more than {MOST_RINGS} rings cannot be told "
            "apart. Split them by a column with fewer values."
        )
    members: dict[str, int] = {}
    for name in train_slices:
        members[name] = members.get(name, 0) + 1
    names = sorted(counts, key=lambda name: (counts[name], name))
    width = DISC * (1 - INNERMOST) / max(1.0, len(names) + RING_GAP * (len(names) - 1))
    inner = [DISC * INNERMOST + number * width * (1 + RING_GAP) for number in range(len(names))]
    return tuple(Ring(name, low, low + width, members[name]) for name, low in zip(names, inner, strict=True))


def _in_rings(positions: Floats, ring_of: Integers, rings: tuple[Ring, ...]) -> Floats:
    inner = np.array([ring.inner for ring in rings])[ring_of]
    outer = np.array([ring.outer for ring in rings])[ring_of]
    distance = np.hypot(positions[:, 0], positions[:, 1])
    # the very middle has no direction; to the right is as good as any
    away = np.where(distance[:, None] > 0, positions / np.where(distance > 0, distance, 1.0)[:, None], [1.0, 0.0])
    placed: Floats = away * (inner + (outer - inner) * np.minimum(distance / DISC, 1.0))[:, None]
    return placed
