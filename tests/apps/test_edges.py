"""Which pairs become edges."""

import numpy as np
import pytest
import torch

from fastif import Scores
from fastif.apps import edges as module
from fastif.apps.edges import choose_edges
from fastif.errors import ConfigurationError, DataError

VALUES = torch.tensor([[-3.0, 2.0, 0.0, -1.0, 5.0], [0.0, -0.5, -0.4, -0.3, 0.1]])
SCORES = Scores(VALUES, torch.tensor([[10, 11, 12, 13, 14], [14, 13, 12, 11, 10]]))


def listed(edges: module.Edges) -> set[tuple[int, int, float]]:
    return set(zip(edges.queries.tolist(), edges.train_ids.tolist(), edges.values.tolist(), strict=True))


def test_so_many_of_each_sign() -> None:
    edges = choose_edges(SCORES, 2)
    expected = {(0, 10, -3.0), (0, 13, -1.0), (0, 14, 5.0), (0, 11, 2.0), (1, 13, -0.5), (1, 12, -0.4), (1, 10, 0.1)}
    assert {(q, i, round(v, 6)) for q, i, v in listed(edges)} == expected
    assert edges.equal_counts
    assert edges.total == 2


def test_the_strongest_whatever_their_sign() -> None:
    edges = choose_edges(SCORES, 2, by="strongest")
    assert {(q, i) for q, i, _ in listed(edges)} == {(0, 14), (0, 10), (1, 13), (1, 12)}
    assert not edges.equal_counts


def test_equal_values_are_ordered_by_their_ids() -> None:
    scores = Scores(torch.tensor([[1.0, -1.0, 1.0, -1.0]]), torch.tensor([[3, 2, 1, 0]]))
    assert choose_edges(scores, 3, by="strongest").train_ids.tolist() == [0, 1, 2]


def test_all_that_are_not_zero() -> None:
    edges = choose_edges(SCORES)
    assert len(edges) == int((VALUES != 0).sum())
    assert len(choose_edges(SCORES, 100)) == len(edges)
    dense = torch.zeros(2, 15, dtype=torch.float64)
    dense[edges.queries, edges.train_ids] = torch.from_numpy(edges.values)
    torch.testing.assert_close(
        dense, torch.zeros(2, 15, dtype=torch.float64).scatter(1, SCORES.train_ids, VALUES.double())
    )


def test_halves_and_the_strongest_of_all() -> None:
    edges = choose_edges(SCORES)
    assert (edges.helpful().values < 0).all()
    assert (edges.harmful().values > 0).all()
    assert len(edges.helpful()) + len(edges.harmful()) == len(edges)
    np.testing.assert_array_equal(edges.strongest(2).values, [-3.0, 5.0])
    assert len(edges.strongest(100)) == len(edges)


def test_nothing_but_zeros_is_no_edge() -> None:
    assert len(choose_edges(Scores(torch.zeros(2, 3), torch.arange(3).expand(2, 3)), 5)) == 0
    assert len(choose_edges(Scores(torch.zeros(0, 3), torch.zeros(0, 3, dtype=torch.int64)), 5)) == 0


def test_what_cannot_be_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="each or strongest"):
        choose_edges(SCORES, 2, by="best")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="at least 1"):
        choose_edges(SCORES, 0)
    monkeypatch.setattr(module, "MOST", 9)
    with pytest.raises(DataError, match="up to 10 edges"):
        choose_edges(SCORES)
    assert len(choose_edges(SCORES, 1)) == 4


def test_of_scores_whose_ends_alone_are_held_no_more_are_chosen_than_is_said() -> None:
    everything = torch.randn(3, 40, generator=torch.Generator().manual_seed(0)) + 1.0
    whole = Scores(everything, torch.arange(40).expand(3, 40), {"train_examples": 40})
    ids = torch.cat([everything.argsort()[:, :6], everything.argsort()[:, -6:]], dim=1)
    held = Scores(everything.gather(1, ids), ids, {"train_examples": 40, "held": "6 of each end"})
    for by in ("each", "strongest"):
        for top in (2, 6, 50):
            edges = choose_edges(held, top, by=by)  # type: ignore[arg-type]
            assert listed(edges) == listed(choose_edges(whole, min(top, 6), by=by))  # type: ignore[arg-type]
            assert ("50 were asked for, and the run holds no more" in edges.choice) == (top == 50)
            assert f"the {min(top, 6)} " in edges.choice
    edges = choose_edges(held)
    assert len(edges) == 36
    assert edges.choice == "the 6 lowest and the 6 highest scores of each query, which is all that the run holds"
    assert edges.equal_counts


def test_scores_that_are_all_held_are_all() -> None:
    for count in (3, 5):
        held = Scores(
            VALUES[:, :4], torch.arange(4).expand(2, 4), {"train_examples": 4, "held": f"{count} of each end"}
        )
        assert choose_edges(held).choice == "all of the 4 training points that were scored for each query"
