"""Counts, means and correlations of slices, against pandas and scipy, and what has none."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import pearsonr

from fastif import Scores
from fastif.apps import slices as module
from fastif.apps.edges import Edges, choose_edges
from fastif.apps.slices import compare_slices
from fastif.errors import DataError, EmptyDataError


def random_scores(queries: int = 12, train: int = 60, seed: int = 0) -> Scores:
    values = torch.randn(queries, train, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) ** 3
    return Scores(values, torch.arange(train).expand(queries, train))


@pytest.mark.parametrize(("top", "by"), [(5, "each"), (9, "strongest"), (None, "each")])
def test_numbers_are_those_of_pandas_and_scipy(top: int | None, by: str) -> None:
    edges = choose_edges(random_scores(), top, by=by)  # type: ignore[arg-type]
    names = ["b", "a", "c"] * 4
    found = compare_slices(edges, names)
    frame = pd.DataFrame(
        {
            "slice": np.array(names)[edges.queries],
            "train": edges.train_ids,
            "value": edges.values,
            "query": edges.queries,
        }
    )
    assert [it.name for it in found.slices] == ["b", "a", "c"]
    for it in found.slices:
        mine = frame[frame["slice"] == it.name]["value"]
        assert it.queries == 4
        assert it.helpful.edges == int((mine < 0).sum())
        assert it.harmful.edges == int((mine > 0).sum())
        assert it.helpful.mean == pytest.approx(-float(mine[mine < 0].mean()))
        assert it.harmful.mean == pytest.approx(float(mine[mine > 0].mean()))
        assert it.train_points == frame[frame["slice"] == it.name]["train"].nunique()
    means = frame.groupby(["train", "slice"])["value"].mean().unstack()
    for first, second in (("a", "b"), ("a", "c"), ("b", "c")):
        both = means[[first, second]].dropna()
        pair = found.pair(first, second)
        assert pair.points == len(both)
        assert pair.correlation == pytest.approx(float(pearsonr(both[first], both[second]).statistic))
        assert found.pair(second, first) is pair
    assert found.pair("a", "a").correlation == 1.0
    assert found.pair("a", "a").points == means["a"].notna().sum()
    assert len(found.pairs) == 6
    assert found.train_points == len(means)
    assert found.shared == int((means.notna().sum(axis=1) > 1).sum())


def edges_of(rows: list[tuple[int, int, float]], total: int) -> Edges:
    queries, ids, values = zip(*rows, strict=True) if rows else ((), (), ())
    integers = np.array(queries, dtype=np.int64), np.array(ids, dtype=np.int64)
    return Edges(*integers, np.array(values, dtype=np.float64), total, "some")


def test_too_few_points_have_no_correlation_but_a_reason() -> None:
    found = compare_slices(edges_of([(0, 1, 1.0), (1, 1, 2.0), (0, 2, -1.0), (1, 2, -2.0), (1, 3, 1.0)], 2), ["a", "b"])
    pair = found.pair("a", "b")
    assert (pair.points, pair.correlation) == (2, None)
    assert pair.reason == "2 training points touch both, and a correlation needs 3"


def test_a_constant_has_no_correlation_but_a_reason() -> None:
    rows = [(0, i, 1.0) for i in range(4)] + [(1, i, float(i + 1)) for i in range(4)]
    pair = compare_slices(edges_of(rows, 2), ["a", "b"]).pair("a", "b")
    assert (pair.points, pair.correlation) == (4, None)
    assert pair.reason == "all 4 points have the same mean on a"


def test_the_mean_is_over_the_edges_that_a_point_has() -> None:
    # point 5 acts on both queries of a, the others on one of them: sums would order them otherwise
    rows = [(0, 5, 1.0), (1, 5, 1.0), (0, 6, 1.5), (1, 7, 2.0), (2, 5, 10.0), (2, 6, 15.0), (2, 7, 20.0)]
    assert compare_slices(edges_of(rows, 3), ["a", "a", "b"]).pair("a", "b").correlation == pytest.approx(1.0)


def test_a_slice_without_queries_and_one_without_edges_are_told_of() -> None:
    found = compare_slices(edges_of([(0, 1, 1.0)], 2), ["a", "b"], empty=["c", "a"])
    assert [(it.name, it.queries, it.train_points) for it in found.slices] == [("a", 1, 1), ("b", 1, 0), ("c", 0, 0)]
    assert found.slices[2].helpful.mean is None
    assert found.pair("a", "c").reason == "c has no query"
    assert found.pair("b", "a").reason == "0 training points touch both, and a correlation needs 3"


def test_no_edge_at_all() -> None:
    found = compare_slices(edges_of([], 2), ["a", "a"])
    assert found.slices[0].queries == 2
    assert found.train_points == found.shared == 0
    assert found.pair("a", "a").correlation is None


def test_json_has_no_nan() -> None:
    found = compare_slices(edges_of([(0, 1, 1.0)], 2), ["a", "b"], empty=["c"])
    told = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert told["slices"][0] == {
        "name": "a",
        "queries": 1,
        "train_points": 1,
        "helpful": {"edges": 0, "mean": None},
        "harmful": {"edges": 1, "mean": 1.0},
    }
    assert told["pairs"][1]["correlation"] is None


def test_what_cannot_be_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = edges_of([(0, 1, 1.0)], 2)
    with pytest.raises(DataError, match="3 slice names for 2 queries"):
        compare_slices(edges, ["a", "b", "c"])
    with pytest.raises(EmptyDataError, match="no query"):
        compare_slices(edges_of([], 0), [])
    with pytest.raises(DataError, match="there are no slices 'a' and 'z'"):
        compare_slices(edges, ["a", "b"]).pair("a", "z")
    monkeypatch.setattr(module, "MOST_SLICES", 1)
    with pytest.raises(DataError, match="2 different slices"):
        compare_slices(edges, ["a", "b"])
