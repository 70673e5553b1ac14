"""Recall against a full scan: counted right, by group, for every method; and what cannot be measured says so."""

import json

import pytest
import torch

import fastif
from fastif import metrics, ranking
from fastif.apps.recall import METHODS, candidate_methods, check_full_scan, most_of_each, recall_table
from fastif.errors import ConfigurationError, DataError
from tests.apps.test_retraining import DECAY, blobs, logistic

TRAIN, QUERIES = blobs(200, 0), blobs(20, 1)


@pytest.fixture(scope="module")
def model() -> fastif.TorchModel:
    return logistic(TRAIN)


@pytest.fixture(scope="module")
def scores(model: fastif.TorchModel) -> fastif.Scores:
    return fastif.Explainer(model, TRAIN, damping=0.0, weight_decay=DECAY).scores(QUERIES)


def test_every_method_is_counted_as_the_metric_counts_it(model: fastif.TorchModel, scores: fastif.Scores) -> None:
    methods = candidate_methods(model, fastif.Examples(TRAIN), fastif.Examples(QUERIES))
    right = [row % 3 > 0 for row in range(20)]
    table = recall_table(scores, methods, ks=[20, 60, 10_000], ms=[10, 5], right=right, examples=200)
    assert table.values("method") == list(METHODS)
    assert table.values("k") == [20, 60]  # there are no more than 200
    wrong = [row for row in range(20) if row % 3 == 0]
    for name, method in methods.items():
        for k in (20, 60):
            found = method(k)
            assert found.shape == (20, k)
            assert all(len(row.unique()) == k for row in found)
            truth = [ranking.harmful(scores.values[row], scores.train_ids[row], 5).ids for row in wrong]
            recalls = [metrics.recall_at(found[row], ids) for row, ids in zip(wrong, truth, strict=True)]
            seen = table.row(name, kind="harmful", m=5, k=k, group="wrong")
            assert seen.mean == pytest.approx(sum(recalls) / len(recalls))
            assert seen.deviation == pytest.approx(float(torch.tensor(recalls).double().std()), rel=1e-6)
            assert seen.queries == 7
    by = {name: table.row(name, kind="absolute", m=10, k=60).mean for name in METHODS}
    assert by["head-gradient"] > by["features"] > by["random"]
    assert by["both"] > by["random"]
    json.dumps(table.as_json(), allow_nan=False)
    assert "With 60 candidates of 200 (30.0%), of the 5 examples of largest influence are found" in " ".join(
        table.in_words()
    )
    assert "Queries predicted wrong (7): by features" in " ".join(table.in_words())


def test_both_takes_half_by_features_and_as_many_of_either_side(model: fastif.TorchModel) -> None:
    methods = candidate_methods(model, fastif.Examples(TRAIN), fastif.Examples(QUERIES), names=["both"])
    assert list(methods) == ["both"]
    near = fastif.Nearest(10, by="features").prepare(model, TRAIN)
    placed = model.place(fastif.Examples(QUERIES).batch(range(20)))
    features = near.select([placed], model.losses).ids(20)
    found = methods["both"](20)
    assert all(set(features[row].tolist()) <= set(found[row].tolist()) for row in range(20))
    assert torch.equal(near.select([placed], model.losses, k=4).ids(20), features[:, :4])


def test_all_candidates_find_everything(scores: fastif.Scores) -> None:
    everyone = {"everyone": lambda k: torch.arange(k).expand(20, -1)}
    table = recall_table(scores, everyone, ks=[200], ms=[most_of_each(scores)], right=[None] * 20, examples=200)
    assert {row.mean for row in table.rows} == {1.0}
    assert table.values("group") == ["all"]


def test_what_cannot_be_measured_says_why(model: fastif.TorchModel, scores: fastif.Scores) -> None:
    nearest = fastif.Explainer(model, TRAIN, damping=0.1, candidates=fastif.Nearest(50)).scores(QUERIES)
    with pytest.raises(DataError, match=r"50 of 200 training examples \(Nearest\(k=50.*measured against a full scan"):
        check_full_scan(nearest, 200)
    everyone = {"everyone": lambda k: torch.arange(k).expand(20, -1)}
    with pytest.raises(DataError, match=r"query \d+ has \d+ helpful training examples, so that recall@150"):
        recall_table(scores, everyone, ks=[10], ms=[150], right=[None] * 20, examples=200)
    with pytest.raises(ConfigurationError, match="more than all"):
        recall_table(scores, everyone, ks=[300], ms=[5], right=[None] * 20, examples=200)
    with pytest.raises(ConfigurationError, match="m must be whole numbers"):
        recall_table(scores, everyone, ks=[10], ms=[0], right=[None] * 20, examples=200)
    with pytest.raises(ConfigurationError, match="features, head-gradient, both, random, not magic"):
        candidate_methods(model, fastif.Examples(TRAIN), fastif.Examples(QUERIES), names=["magic"])
