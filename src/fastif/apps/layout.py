r"""Weighted geometric medians of very many small sets of points in the plane, all of them at once.

The median of a node is $\arg\min_x f(x)$, $f(x) = \sum_e w_e \|x - p_e\|$ over its points, within a disc if one is
given. In every round each node takes the best of three steps:

- Weiszfeld's, to $x + (\sum_e w_e u_e / d_e) / (\sum_e w_e / d_e)$ with $u_e$ the vector to point e and $d_e$ its
  length: the centre of a quadratic that lies above f and is alike in all directions, so that its minimum within a disc
  is the projection of that centre. It never climbs. On a point itself, where f has no gradient, Vardi and Zhang's
  correction says whether the point is the median, and if not how far to leave it.
- A longer one in the same direction, as Weiszfeld's are short in a flat valley.
- Newton's, with the 2 x 2 Hessian; on the edge of the disc, along the circle.

What is at least as good as Weiszfeld's step converges wherever his does. A median that is one of the points would be
approached for ever: so every round asks Vardi and Zhang's question of the point that is nearest, and ends there if the
answer is yes. Knows points and weights alone. The authors of the paper called a general solver node by node.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fastif.errors import DataError, ShapeError

TOLERANCE = 1e-12  # of what is left of the pull on a node, where the weights of a node sum to one
MOST_ROUNDS = 300
STRIDE = 4.0  # how a longer step of Weiszfeld's grows and shrinks
LONGEST_TURN = 0.5  # of a step along the circle, in radians
SINGULAR = 1e-14  # of the determinant of a Hessian, beside the square of its trace
TOUCHING = 1e-12  # how near to a point is on it, beside the largest coordinate
ON_EDGE = 1e-12  # how near to the edge of the disc is on it, beside the radius

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def weighted_medians(points: Floats, weights: Floats, nodes: Integers, *, radius: float | None = None) -> Floats:
    """Return for each node 0, 1, 2, ... the weighted geometric median of its points, as rows (x, y).

    Args:
        points: (E, 2), a row for each edge.
        weights: (E,), above zero; only their ratios within a node matter.
        nodes: (E,), the node of each edge; every number up to the largest has an edge at least.
        radius: of a disc around the origin that medians stay within; None lets them be anywhere.

    Where several places are equally good (two points of one weight), one between them is returned.

    >>> corners = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 3.0]])
    >>> weighted_medians(corners, np.array([5.0, 1.0, 1.0]), np.zeros(3, dtype=np.int64)).tolist()
    [[0.0, 0.0]]
    """
    count = _check(points, weights, nodes, radius)
    if not count:
        return np.empty((0, 2))
    order = np.argsort(nodes, kind="stable")
    edges = _Edges.sorted(points[order], weights[order], nodes[order])
    at = _within(np.stack([edges.sum(edges.w * edges.x), edges.sum(edges.w * edges.y)], axis=1), radius)
    reachable = bool(_is_within(points, radius).any())
    medians = at.copy()
    waiting, stride = np.arange(count), np.full(count, STRIDE)
    for _ in range(MOST_ROUNDS):
        pull = _pull(edges, at)
        done = _balanced(pull, at, radius)
        if reachable:
            found, place = _nearest_is_median(edges, at, radius)
            at = np.where((found & (~done | (pull.held > 0)))[:, None], place, at)
            done |= found
        medians[waiting] = at
        if done.all():
            break
        after, stride = _step(edges, at, pull, stride, radius)
        done |= (after == at).all(axis=1)  # as near as the numbers can tell
        at, waiting, stride = after[~done], waiting[~done], stride[~done]
        edges = edges.of(~done)
        if not len(waiting):
            break
    return medians


@dataclass(frozen=True)
class _Edges:
    """Edges in the order of their nodes; the weights of a node sum to one."""

    x: Floats
    y: Floats
    w: Floats
    node: Integers
    starts: Integers
    touching: float  # how near is on a point; nearer than rounding can tell, a direction means nothing

    @classmethod
    def sorted(cls, points: Floats, weights: Floats, nodes: Integers) -> "_Edges":
        starts = np.flatnonzero(np.diff(nodes, prepend=-1))
        weights = weights / np.maximum.reduceat(weights, starts)[nodes]  # before the sum, which could overflow
        weights = weights / np.add.reduceat(weights, starts)[nodes]
        touching = TOUCHING * float(np.abs(points).max(initial=0.0))
        return cls(points[:, 0].copy(), points[:, 1].copy(), weights, nodes, starts, touching)

    def sum(self, values: Floats) -> Floats:
        """Return the sum over the edges of each node."""
        found: Floats = np.add.reduceat(values, self.starts)
        return found

    def of(self, kept: Flags) -> "_Edges":
        """Return the edges of some of the nodes, which are numbered anew."""
        if kept.all():
            return self
        edges = kept[self.node]
        nodes = (np.cumsum(kept) - 1)[self.node[edges]]
        starts = np.flatnonzero(np.diff(nodes, prepend=-1))
        return _Edges(self.x[edges], self.y[edges], self.w[edges], nodes, starts, self.touching)

    def cost(self, at: Floats) -> Floats:
        """Return f at a place for each node."""
        return self.sum(self.w * np.hypot(self.x - at[self.node, 0], self.y - at[self.node, 1]))


class _Pull(NamedTuple):
    """What draws each node: minus the gradient of f and the Hessian, without points that the node lies on.

    `held` is the weight of the points that it lies on, `stiff` the sum of w / d.
    """

    x: Floats
    y: Floats
    xx: Floats
    xy: Floats
    yy: Floats
    stiff: Floats
    held: Floats

    @property
    def size(self) -> Floats:
        return np.hypot(self.x, self.y)


def _pull(edges: _Edges, at: Floats) -> _Pull:
    x, y = edges.x - at[edges.node, 0], edges.y - at[edges.node, 1]
    length = np.hypot(x, y)
    apart = length > edges.touching
    length = np.where(apart, length, np.inf)
    x, y = x / length, y / length  # zero on the point itself
    stiff = edges.w / length
    return _Pull(
        x=edges.sum(edges.w * x),
        y=edges.sum(edges.w * y),
        xx=edges.sum(stiff * y * y),
        xy=edges.sum(-stiff * x * y),
        yy=edges.sum(stiff * x * x),
        stiff=edges.sum(stiff),
        held=np.zeros(len(at)) if apart.all() else edges.sum(np.where(apart, 0.0, edges.w)),
    )


def _balanced(pull: _Pull, at: Floats, radius: float | None) -> Flags:
    """Whether nothing draws a node any more, but for out of the disc, or less than the points hold that it lies on."""
    still = pull.size <= pull.held + TOLERANCE
    if radius is None:
        return still
    along, outward = _on_edge(pull, at, radius)
    return still | (outward & (np.abs(along) <= TOLERANCE))


def _on_edge(pull: _Pull, at: Floats, radius: float) -> tuple[Floats, Flags]:
    """Return how strongly each node is drawn along the circle, and whether it lies on it and is drawn outwards."""
    distance = np.hypot(at[:, 0], at[:, 1])
    outward = (distance >= radius * (1 - ON_EDGE)) & (pull.x * at[:, 0] + pull.y * at[:, 1] >= 0) & (pull.held == 0)
    return (pull.y * at[:, 0] - pull.x * at[:, 1]) / np.where(distance > 0, distance, 1.0), outward


def _nearest_is_median(edges: _Edges, at: Floats, radius: float | None) -> tuple[Flags, Floats]:
    """Return for each node whether the point that is nearest to it is its median, and that point."""
    distance = np.hypot(edges.x - at[edges.node, 0], edges.y - at[edges.node, 1])
    closest = np.flatnonzero(distance == np.minimum.reduceat(distance, edges.starts)[edges.node])[::-1]
    nearest = np.empty(len(at), dtype=np.int64)
    nearest[edges.node[closest]] = closest  # of several, the first
    place = np.stack([edges.x[nearest], edges.y[nearest]], axis=1)
    there = _pull(edges, place)
    return (there.size <= there.held + TOLERANCE) & _is_within(place, radius), place


def _step(edges: _Edges, at: Floats, pull: _Pull, stride: Floats, radius: float | None) -> tuple[Floats, Floats]:
    """Return where each node goes, the best of the three steps or nowhere if none is better, and its next stride."""
    size = pull.size
    share = np.where(size > pull.held, 1 - pull.held / np.where(size > 0, size, 1.0), 0.0)
    plain = (share / np.where(pull.stiff > 0, pull.stiff, 1.0))[:, None] * np.stack([pull.x, pull.y], axis=1)
    ways = (at + plain, at + stride[:, None] * plain, _newton(at, pull, radius))
    places = [_within(place, radius) for place in ways]
    costs = [edges.cost(place) for place in places]
    best, cost = at, edges.cost(at)
    for place, its_cost in zip(places, costs, strict=True):
        better = its_cost < cost  # never true of what is not a number
        best, cost = np.where(better[:, None], place, best), np.where(better, its_cost, cost)
    return best, np.where(costs[1] < costs[0], stride * STRIDE, np.maximum(stride / STRIDE, STRIDE))


def _newton(at: Floats, pull: _Pull, radius: float | None) -> Floats:
    determinant, trace = pull.xx * pull.yy - pull.xy**2, pull.xx + pull.yy
    usable = (determinant > SINGULAR * trace**2) & (pull.held == 0)
    safe = np.where(usable, determinant, 1.0)
    step = np.stack([pull.yy * pull.x - pull.xy * pull.y, pull.xx * pull.y - pull.xy * pull.x], axis=1)
    free = at + np.where(usable[:, None], step / safe[:, None], np.nan)
    if radius is None:
        return free
    along, outward = _on_edge(pull, at, radius)
    x, y = at[:, 0] / radius, at[:, 1] / radius
    # f along the circle has the second derivative R^2 t.Ht + R (pull outwards), t the direction along it
    bent = radius**2 * (pull.xx * y * y - 2 * pull.xy * x * y + pull.yy * x * x)
    bent += radius * (pull.x * x + pull.y * y)
    turn = np.clip(radius * along / np.where(bent > 0, bent, np.inf), -LONGEST_TURN, LONGEST_TURN)
    turned = np.stack([x * np.cos(turn) - y * np.sin(turn), x * np.sin(turn) + y * np.cos(turn)], axis=1)
    return np.where(outward[:, None], radius * turned, free)


def _within(places: Floats, radius: float | None) -> Floats:
    """Return the nearest places in the disc."""
    if radius is None:
        return places
    distance = np.hypot(places[:, 0], places[:, 1])
    outside = distance > radius
    return np.where(outside[:, None], places * (radius / np.where(outside, distance, 1.0))[:, None], places)


def _is_within(places: Floats, radius: float | None) -> Flags:
    """Whether places are in the disc, one on its edge that rounding has moved out of it as well."""
    if radius is None:
        return np.ones(len(places), dtype=np.bool_)
    return np.hypot(places[:, 0], places[:, 1]) <= radius * (1 + ON_EDGE)


def _check(points: Floats, weights: Floats, nodes: Integers, radius: float | None) -> int:
    """Return how many nodes there are, or raise."""
    if points.ndim != 2 or points.shape[1] != 2 or weights.shape != points.shape[:1] or nodes.shape != weights.shape:
        raise ShapeError(
            f"medians need points (E, 2), weights (E,) and nodes (E,), got {points.shape}, {weights.shape} and "
            f"{nodes.shape}."
        )
    if not np.isfinite(points).all() or not np.isfinite(weights).all() or not (weights > 0).all():
        raise DataError("points and weights must be finite numbers, and weights above zero. Leave out edges of none.")
    if radius is not None and not 0 < radius < np.inf:
        raise DataError(f"the radius of a disc must be a number above zero, not {radius!r}.")
    if not len(nodes):
        return 0
    count = int(nodes.max()) + 1
    if nodes.min() < 0 or len(np.unique(nodes)) != count:
        raise DataError("nodes must be 0, 1, 2, ... with no number left out: a node without an edge has no median.")
    return count
