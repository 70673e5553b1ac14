"""Where queries and training points lie."""

import math

import numpy as np
import pytest
import torch

from fastif import Scores
from fastif.apps.edges import choose_edges
from fastif.apps.graph import DISC, Graph, lay_out
from fastif.apps.layout import weighted_medians
from fastif.errors import DataError, EmptyDataError

NAMES = ["a"] * 6 + ["b"] * 3 + ["c"]
TRAIN = 40


def scores(seed: int = 0) -> Scores:
    values = torch.randn(len(NAMES), TRAIN, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return Scores(values, torch.arange(TRAIN).expand(len(NAMES), TRAIN))


def graph(**options: object) -> Graph:
    return lay_out(choose_edges(scores(), 4), NAMES, **options)  # type: ignore[arg-type]


def test_arcs_are_as_long_as_their_slices_and_apart() -> None:
    found = graph()
    lengths = [arc.start - arc.end for arc in found.arcs]
    assert [arc.name for arc in found.arcs] == ["a", "b", "c"]
    np.testing.assert_allclose(np.array(lengths) / lengths[2], [6, 3, 1])
    gaps = [one.end - other.start for one, other in zip(found.arcs, found.arcs[1:], strict=False)]
    gaps.append(found.arcs[-1].end - (found.arcs[0].start - 2 * math.pi))
    np.testing.assert_allclose(gaps, gaps[0])
    assert gaps[0] > 0
    np.testing.assert_allclose(np.hypot(*found.places.T), 1.0)
    for query, name in enumerate(NAMES):
        arc = next(arc for arc in found.arcs if arc.name == name)
        angle = math.atan2(found.places[query, 1], found.places[query, 0])
        turns = [angle + 2 * math.pi * turn for turn in (-2, -1, 0, 1)]
        assert any(arc.end < turn < arc.start for turn in turns)


def test_queries_of_a_slice_need_not_stand_together() -> None:
    found = lay_out(choose_edges(scores(), 4), ["a", "b"] * 5)
    assert [arc.queries for arc in found.arcs] == [5, 5]
    assert len(np.unique(found.places.round(9), axis=0)) == 10
    assert (found.places[::2, 0] > 0).all()  # clockwise from the top: the first slice is on the right
    assert (found.places[1::2, 0] < 0).all()


def test_many_slices_leave_room_for_queries() -> None:
    found = lay_out(choose_edges(scores(), 4), [f"s{number}" for number in range(10)])
    assert sum(arc.start - arc.end for arc in found.arcs) > 0.7 * 2 * math.pi


def test_points_lie_at_the_median_of_each_sign_alone() -> None:
    found = graph()
    for side in found.sides:
        assert ((side.edges.values < 0) == (side.sign == "helpful")).all()
        np.testing.assert_array_equal(side.train_ids[side.nodes], side.edges.train_ids)
        for node in range(len(side.train_ids)):
            mine = side.nodes == node
            weights = np.abs(side.edges.values[mine])
            points = found.places[side.edges.queries[mine]]
            alone = weighted_medians(points, weights, np.zeros(len(weights), dtype=np.int64), radius=DISC)[0]
            np.testing.assert_allclose(side.positions[node], alone, atol=1e-6)
            assert side.strength[node] == pytest.approx(weights.sum())
        assert np.hypot(*side.positions.T).max() <= DISC + 1e-9
    both = np.intersect1d(found.helpful.train_ids, found.harmful.train_ids)
    assert len(both)  # such a point lies in two places
    assert found.train_points == len(np.union1d(found.helpful.train_ids, found.harmful.train_ids))
    assert found.edges == len(choose_edges(scores(), 4))


def test_rings_keep_directions_and_apart() -> None:
    train = ["x" if index < 30 else "y" for index in range(TRAIN)]
    plain, split = graph(), graph(train_slices=train)
    assert [ring.name for ring in split.rings] == ["y", "x"]  # the fewest within
    assert [ring.train_points for ring in split.rings] == [10, 30]
    assert split.rings[0].outer < split.rings[1].inner
    assert split.rings[1].outer == pytest.approx(DISC)
    for before, side in zip(plain.sides, split.sides, strict=True):
        distance = np.hypot(*side.positions.T)
        for number, ring in enumerate(split.rings):
            mine = side.rings == number
            assert {train[index] for index in side.train_ids[mine]} == {ring.name}
            assert (distance[mine] >= ring.inner - 1e-9).all()
            assert (distance[mine] <= ring.outer + 1e-9).all()
        then = before.positions / np.hypot(*before.positions.T)[:, None]
        np.testing.assert_allclose(side.positions / distance[:, None], then, atol=1e-9)


def test_no_edge_is_a_graph_of_queries_alone() -> None:
    nothing = Scores(torch.zeros(2, 3), torch.arange(3).expand(2, 3))
    found = lay_out(choose_edges(nothing, 3), ["a", "b"], train_slices=["x", "y", "z"])
    assert (found.edges, found.train_points, found.rings) == (0, 0, ())


def test_one_query() -> None:
    one = Scores(torch.tensor([[-1.0, 2.0]]), torch.tensor([[0, 1]]))
    found = lay_out(choose_edges(one, 3), ["only"])
    np.testing.assert_allclose(found.helpful.positions[0], DISC * found.places[0])


def test_what_cannot_be_is_said() -> None:
    edges = choose_edges(scores(), 4)
    with pytest.raises(DataError, match="1 slice names for 10 queries"):
        lay_out(edges, ["a"])
    with pytest.raises(DataError, match="give one name for each training point"):
        lay_out(edges, NAMES, train_slices=["x"] * 5)
    with pytest.raises(DataError, match="more than 12 rings"):
        lay_out(edges, NAMES, train_slices=[str(index) for index in range(TRAIN)])
    empty = Scores(torch.zeros(0, 3), torch.zeros(0, 3, dtype=torch.int64))
    with pytest.raises(EmptyDataError, match="no query"):
        lay_out(choose_edges(empty), [])
