"""Slices and graphs in words: two or three sentences that say what the numbers show, and nothing that they do not.

Knows the results of `slices.py` and `graph.py`. A sentence that has no ground in the numbers at hand is left out, or
says why there is none.
"""

import numpy as np

from fastif.apps.edges import Floats, Integers
from fastif.apps.graph import Graph
from fastif.apps.slices import ALL, Comparison, Pair, Slice

ALIKE = 1.1  # means whose ratio is below this are called about as strong
FEW = 10  # points below which a correlation is called one of few points


def tell_slices(found: Comparison) -> list[str]:
    """Return what the comparison of slices shows."""
    told = [_strengths(found)]
    if not found.equal_counts:
        told.append(_counts(found))
    told.append(_correlations(found))
    return told


def tell_graph(graph: Graph) -> list[str]:
    """Return what the graph shows."""
    if not graph.edges:
        return ["No training point has an influence on any query other than zero, so that there is nothing to see."]
    ids, strength = _strength(graph)
    ordered = np.sort(strength)[::-1]
    half = int(np.searchsorted(np.cumsum(ordered), ordered.sum() / 2)) + 1
    slices = [arc.name for arc in graph.arcs]
    where = "" if slices == [ALL] else f" in {_count(len(slices), 'slice', 'slices')}"
    told = [
        f"{_count(len(ids), 'training point acts', 'training points act')} on "
        f"{_count(len(graph.slices), 'query', 'queries')}{where} through {_count(graph.edges, 'edge', 'edges')}; half "
        f"of all |I| comes from {half:,} of the points ({share(half, len(ids))})."
    ]
    if len(slices) > 1:
        told.append(_reach(graph, ids, slices))
    if len(graph.rings) > 1:
        told.append(_rings(graph, ids, strength))
    return told


def share(part: float, whole: float) -> str:
    """Return a share in words.

    >>> share(1, 3), share(1, 2000), share(1999, 2000), share(0, 5)
    ('33%', 'less than 1%', 'more than 99%', '0%')
    """
    value = part / whole
    if 0 < value < 0.01:
        return "less than 1%"
    if 0.99 < value < 1:
        return "more than 99%"
    return f"{value:.0%}"


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _strengths(found: Comparison) -> str:
    both = [it for it in found.slices if it.helpful.mean and it.harmful.mean]
    if not both:
        return "No slice has helpful and harmful edges, so that there is no strength to compare."
    helpful = [it for it in both if _ratio(it) >= ALIKE]
    harmful = [it for it in both if _ratio(it) <= 1 / ALIKE]
    if len(both) == 1:
        (it,) = both
        if not helpful and not harmful:
            return f'In "{it.name}", helpful and harmful edges are about as strong on average ({_means(it)}).'
        return f'In "{it.name}", {_stronger(it)}.'
    if not helpful and not harmful:
        return f"In all {len(both)} slices, helpful and harmful edges are about as strong on average."
    parts = []
    for kind, members in (("helpful", helpful), ("harmful", harmful)):
        if members:
            most = max(members, key=lambda it: abs(np.log(_ratio(it))))
            which = f'in "{most.name}", {_stronger(most)}'
            parts.append(f"{kind} edges are the stronger ones in {len(members)} of {len(both)} slices: {which}")
    words = "; ".join(parts)
    return f"{words[0].upper()}{words[1:]}."


def _ratio(it: Slice) -> float:
    assert it.helpful.mean is not None
    assert it.harmful.mean is not None
    return it.helpful.mean / it.harmful.mean


def _stronger(it: Slice) -> str:
    kinds = ("helpful", "harmful") if _ratio(it) > 1 else ("harmful", "helpful")
    times = max(_ratio(it), 1 / _ratio(it))
    return f"a {kinds[0]} edge has {times:.1f} times the mean |I| of a {kinds[1]} one ({_means(it)})"


def _means(it: Slice) -> str:
    return f"helpful {it.helpful.mean:.3g}, harmful {it.harmful.mean:.3g}"


def _counts(found: Comparison) -> str:
    helpful = sum(it.helpful.edges for it in found.slices)
    total = helpful + sum(it.harmful.edges for it in found.slices)
    if not total:
        return "There is no edge at all."
    told = f"Of {_count(total, 'edge', 'edges')}, {share(helpful, total)} are helpful"
    shares = {
        it.name: it.helpful.edges / (it.helpful.edges + it.harmful.edges)
        for it in found.slices
        if it.helpful.edges + it.harmful.edges
    }
    if len(shares) > 1:
        least, most = min(shares, key=lambda name: shares[name]), max(shares, key=lambda name: shares[name])
        told += f', from {share(shares[least], 1)} ("{least}") to {share(shares[most], 1)} ("{most}")'
    return f"{told}."


def _correlations(found: Comparison) -> str:
    pairs = [pair for pair in found.pairs if pair.first != pair.second]
    if not pairs:
        return f'There is one slice only ("{found.slices[0].name}"), so that no two can be compared.'
    known = [pair for pair in pairs if pair.correlation is not None]
    if not known:
        reasons = sorted({pair.reason or "" for pair in pairs})
        return f"No two slices can be compared: {reasons[0]}."
    positive = sum((pair.correlation or 0.0) > 0 for pair in known)
    alike = max(known, key=lambda pair: pair.correlation or 0.0)
    unlike = min(known, key=lambda pair: pair.correlation or 0.0)
    if len(known) == 1:
        told = f"Over the training points that touch both, {_correlation(alike)}"
    else:
        told = (
            f"Over the training points that touch both slices of a pair, influence is correlated positively for "
            f"{positive} of {len(known)} pairs; most: {_correlation(alike)}; least: {_correlation(unlike)}"
        )
    left = len(pairs) - len(known)
    told += f"; {_count(left, 'pair has', 'pairs have')} no correlation" if left else ""
    return f"{told}."


def _correlation(pair: Pair) -> str:
    few = ", which are few" if pair.points < FEW else ""
    return f'"{pair.first}" and "{pair.second}" have r = {pair.correlation:.2f} over {pair.points:,} points{few}'


def _strength(graph: Graph) -> tuple[Integers, Floats]:
    """Return the training points, and the sum of |I| of each over both halves."""
    ids, rows = np.unique(np.concatenate([side.train_ids for side in graph.sides]), return_inverse=True)
    strength: Floats = np.bincount(rows, np.concatenate([side.strength for side in graph.sides])).astype(np.float64)
    return ids, strength


def _reach(graph: Graph, ids: Integers, slices: list[str]) -> str:
    """Say how many training points act on more than one slice."""
    numbers = {name: number for number, name in enumerate(slices)}
    of_query = np.array([numbers[name] for name in graph.slices])
    points = np.searchsorted(ids, np.concatenate([side.edges.train_ids for side in graph.sides]))
    queries = np.concatenate([side.edges.queries for side in graph.sides])
    cells = np.unique(points * len(slices) + of_query[queries])
    several = int((np.bincount(cells // len(slices)) > 1).sum())
    each = graph.edges / len(ids)
    return (
        f"A point acts on {each:.1f} queries on average, and {_count(several, 'point', 'points')} "
        f"({share(several, len(ids))}) on more than one slice."
    )


def _rings(graph: Graph, ids: Integers, strength: Floats) -> str:
    """Say which slice of the training data has more influence than its size would give it."""
    ring_of = np.empty(len(ids), dtype=np.int64)
    for side in graph.sides:
        ring_of[np.searchsorted(ids, side.train_ids)] = side.rings
    sums = np.bincount(ring_of, strength, minlength=len(graph.rings))
    sizes = np.array([ring.train_points for ring in graph.rings])
    relative = sums / sizes
    if relative.max() < ALIKE * relative.min():
        return f"For their number, training points of all {len(sizes)} slices have about as much influence."
    most = int(relative.argmax())
    return (
        f'For their number, training points of "{graph.rings[most].name}" have the most influence: '
        f"{share(float(sums[most]), float(sums.sum()))} of all |I|, and {share(int(sizes[most]), int(sizes.sum()))} of "
        f"the training points of these {len(sizes)} slices."
    )
