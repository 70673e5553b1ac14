"""The sentences are true of the numbers, and say so where there is nothing to say."""

import numpy as np
import torch

from fastif import Scores
from fastif.apps.edges import Edges, choose_edges
from fastif.apps.graph import lay_out
from fastif.apps.slices import compare_slices
from fastif.apps.telling import tell_graph, tell_slices


def edges_of(rows: list[tuple[int, int, float]], total: int, *, equal: bool = False) -> Edges:
    queries, ids, values = zip(*rows, strict=True)
    integers = np.array(queries, dtype=np.int64), np.array(ids, dtype=np.int64)
    return Edges(*integers, np.array(values, dtype=np.float64), total, "some", equal)


def test_strength_counts_and_correlations() -> None:
    rows = [(0, 0, -8.0), (0, 1, 2.0), (0, 2, 2.0), (1, 0, -4.0), (1, 1, 1.0), (1, 2, 1.0), (1, 3, 1.0)]
    told = tell_slices(compare_slices(edges_of(rows, 2), ["a", "b"]))
    assert told == [
        'Helpful edges are the stronger ones in 2 of 2 slices: in "a", a helpful edge has 4.0 times the mean |I| of a '
        "harmful one (helpful 8, harmful 2).",
        'Of 7 edges, 29% are helpful, from 25% ("b") to 33% ("a").',
        'Over the training points that touch both, "a" and "b" have r = 1.00 over 3 points, which are few.',
    ]


def test_slices_that_differ_are_both_told_of() -> None:
    rows = [(0, 0, -8.0), (0, 1, 2.0), (1, 0, -1.0), (1, 1, 3.0)]
    (strength, correlation) = tell_slices(compare_slices(edges_of(rows, 2, equal=True), ["a", "b"]))
    assert 'Helpful edges are the stronger ones in 1 of 2 slices: in "a", a helpful edge has 4.0 times' in strength
    assert 'harmful edges are the stronger ones in 1 of 2 slices: in "b", a harmful edge has 3.0 times' in strength
    assert correlation == "No two slices can be compared: 2 training points touch both, and a correlation needs 3."


def test_counts_that_were_asked_for_are_not_told_as_findings() -> None:
    scores = Scores(torch.randn(6, 30, generator=torch.Generator().manual_seed(0)), torch.arange(30).expand(6, 30))
    told = tell_slices(compare_slices(choose_edges(scores, 3), ["a", "b"] * 3))
    assert not any("are helpful" in words for words in told)
    told = tell_slices(compare_slices(choose_edges(scores, 3, by="strongest"), ["a", "b"] * 3))
    assert any("Of 18 edges" in words for words in told)


def test_one_slice_and_nothing_to_compare() -> None:
    told = tell_slices(compare_slices(edges_of([(0, 0, -1.0), (0, 1, 1.0)], 1), ["all"]))
    assert told[0] == 'In "all", helpful and harmful edges are about as strong on average (helpful 1, harmful 1).'
    assert told[-1] == 'There is one slice only ("all"), so that no two can be compared.'
    told = tell_slices(compare_slices(edges_of([(0, 0, -1.0)], 1), ["all"]))
    assert told[0] == "No slice has helpful and harmful edges, so that there is no strength to compare."


def test_a_graph_in_words() -> None:
    rows = [(0, 0, -10.0), (1, 0, 10.0), (0, 1, -1.0), (0, 2, 1.0), (1, 3, 1.0), (1, 4, 1.0)]
    found = lay_out(edges_of(rows, 2), ["a", "b"], train_slices=["x", "y", "y", "y", "y", "y"])
    assert tell_graph(found) == [
        "5 training points act on 2 queries in 2 slices through 6 edges; half of all |I| comes from 1 of the points "
        "(20%).",
        "A point acts on 1.2 queries on average, and 1 point (20%) on more than one slice.",
        'For their number, training points of "x" have the most influence: 83% of all |I|, and 17% of the training '
        "points of these 2 slices.",
    ]


def test_rings_that_are_alike_and_a_graph_without_edges() -> None:
    rows = [(0, 0, -1.0), (0, 1, 1.0)]
    told = tell_graph(lay_out(edges_of(rows, 1), ["all"], train_slices=["x", "y"]))
    assert told[0].startswith("2 training points act on 1 query through 2 edges;")
    assert told[-1] == "For their number, training points of all 2 slices have about as much influence."
    nothing = Scores(torch.zeros(1, 2), torch.arange(2)[None])
    assert "nothing to see" in tell_graph(lay_out(choose_edges(nothing), ["all"]))[0]
