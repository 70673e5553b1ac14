"""Metrics against scipy, scikit-learn and the definitions, over ties, extremes and what has no answer."""

import math

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
import torch
from hypothesis import given
from hypothesis import strategies as st

from fastif.errors import ConfigurationError, DataError, EmptyDataError, ShapeError
from fastif.metrics import auc, kendall, linear_datamodeling_score, pearson, recall_at, spearman

CORRELATIONS = [(pearson, scipy.stats.pearsonr), (spearman, scipy.stats.spearmanr), (kendall, scipy.stats.kendalltau)]
each_correlation = pytest.mark.parametrize(("ours", "theirs"), CORRELATIONS, ids=["pearson", "spearman", "kendall"])
each = pytest.mark.parametrize("metric", [pearson, spearman, kendall])


@st.composite
def pairs(draw, smallest=2, largest=40):
    """Two lists that are not constant, of few different values (many ties) or of many."""
    few = st.sampled_from([-2.0, -0.5, -0.0, 0.0, 0.5, 3.0])
    many = st.floats(-1e3, 1e3, allow_subnormal=False).map(lambda value: round(value, 3))
    size = draw(st.integers(smallest, largest))
    lists = [
        draw(st.lists(draw(st.sampled_from([few, many])), min_size=size, max_size=size).filter(lambda v: len({*v}) > 1))
        for _ in range(2)
    ]
    return tuple(torch.tensor(values, dtype=torch.float64) for values in lists)


@each_correlation
@given(data=pairs())
def test_equals_scipy(ours, theirs, data):
    x, y = data
    assert ours(x, y) == pytest.approx(theirs(x.numpy(), y.numpy()).statistic, abs=1e-9)


@each_correlation
def test_equals_scipy_on_many_numbers_with_ties(ours, theirs):
    random = np.random.default_rng(0)
    x = random.integers(0, 500, 20_000).astype(float)
    y = np.round(x + random.normal(0, 300, 20_000))
    assert ours(torch.from_numpy(x), torch.from_numpy(y)) == pytest.approx(theirs(x, y).statistic, abs=1e-12)


def test_kendall_of_a_hundred_thousand_is_exact():
    # Reversed within blocks of 4: 6 discordant pairs a block. n^2 pairs would not fit in memory, nor P - Q in 32 bit.
    n = 100_000
    x = torch.arange(n)
    y = x.view(-1, 4).flip(1).reshape(-1)
    assert kendall(x, y) == pytest.approx(1 - 2 * (6 * n // 4) / (n * (n - 1) // 2), abs=1e-15)
    assert kendall(x, -x) == -1.0


@each
@given(data=pairs())
def test_is_symmetric_odd_and_at_most_one(metric, data):
    x, y = data
    value = metric(x, y)
    assert -1.0 <= value <= 1.0
    assert metric(y, x) == pytest.approx(value, abs=1e-12)
    assert metric(x, -y) == pytest.approx(-value, abs=1e-12)
    assert metric(x, x) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("metric", [spearman, kendall])
@given(data=pairs())
def test_rank_correlations_ignore_a_rising_map(metric, data):
    x, y = data
    assert metric(torch.searchsorted(x.unique(), x) ** 3, y) == pytest.approx(metric(x, y), abs=1e-12)


@each
@pytest.mark.parametrize("scale", [1e-310, 1e-300, 1e-160, 1e160, 1e300, 8e307])
def test_scale_neither_overflows_nor_underflows(metric, scale):
    x, y = torch.tensor([1.0, 2.0, -1.5, 0.5], dtype=torch.float64), torch.tensor([2.0, 1.0, -1.0, 0.0])
    assert metric(x * scale, y) == pytest.approx(metric(x, y), abs=1e-9)


def test_pearson_keeps_its_digits_far_from_zero():
    x = torch.tensor([1.0, 2.0, 3.0, 5.0], dtype=torch.float64)
    y = torch.tensor([2.0, 1.0, 4.0, 4.0], dtype=torch.float64)
    assert pearson(x + 1e6, y) == pytest.approx(pearson(x, y), abs=1e-9)


@each
def test_float32_is_computed_in_float64(metric):
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(3000, generator=generator), torch.randn(3000, generator=generator)
    assert metric(x, y) == metric(x.double(), y.double())


@each
def test_what_has_no_correlation_is_refused(metric):
    good = torch.tensor([1.0, 2.0, 3.0])
    with pytest.raises(DataError, match="x is constant"):
        metric(torch.full((3,), 0.1), good)
    with pytest.raises(DataError, match="y is constant"):
        metric(good, torch.tensor([0.0, -0.0, 0.0]))
    for bad in (math.nan, math.inf, -math.inf):
        with pytest.raises(DataError, match=r"y\[1\] is"):
            metric(good, torch.tensor([1.0, bad, 2.0]))
    for short in (torch.empty(0), torch.ones(1)):
        with pytest.raises(DataError, match="at least two"):
            metric(short, short)
    with pytest.raises(ShapeError, match="one length"):
        metric(good, torch.ones(4))
    with pytest.raises(ShapeError, match="1-D"):
        metric(good[None], good[None])


@given(pairs(), st.data())
def test_auc_equals_scikit_learn_and_the_definition(data, more):
    scores = data[0]
    labels = more.draw(
        st.lists(st.booleans(), min_size=len(scores), max_size=len(scores)).filter(lambda v: len({*v}) == 2)
    )
    mask = torch.tensor(labels)
    value = auc(scores, mask)
    above = (scores[mask][:, None] > scores[~mask]).double() + 0.5 * (scores[mask][:, None] == scores[~mask]).double()
    assert value == pytest.approx(float(above.mean()), abs=1e-12)
    assert value == pytest.approx(sklearn.metrics.roc_auc_score(labels, scores.numpy()), abs=1e-12)
    assert auc(-scores, mask) == pytest.approx(1 - value, abs=1e-12)
    assert auc(scores, mask.long()) == value


def test_auc_of_constant_scores_is_a_half():
    assert auc(torch.zeros(5), torch.tensor([0, 1, 1, 0, 1])) == 0.5


def test_auc_refuses_what_it_cannot_answer():
    scores = torch.tensor([0.1, 0.2, 0.3])
    for one_class in (torch.zeros(3), torch.ones(3)):
        with pytest.raises(DataError, match="both classes"):
            auc(scores, one_class)
    with pytest.raises(DataError, match="0 or 1"):
        auc(scores, torch.tensor([1, 2, 1]))
    with pytest.raises(DataError, match=r"scores\[0\] is nan"):
        auc(torch.tensor([math.nan, 1.0]), torch.tensor([0, 1]))
    with pytest.raises(DataError, match="both classes"):
        auc(torch.empty(0), torch.empty(0))
    with pytest.raises(ShapeError, match="one length"):
        auc(scores, torch.ones(2))


@given(st.lists(st.integers(0, 30), max_size=40), st.sets(st.integers(0, 30), min_size=1), st.data())
def test_recall_is_the_share_of_the_true_that_was_found(found, true, more):
    order = more.draw(st.permutations(sorted(true)))
    m = more.draw(st.integers(1, len(order)))
    found_ids = torch.tensor(found, dtype=torch.int64)
    assert recall_at(found_ids, torch.tensor(order)) == pytest.approx(len({*found} & true) / len(true), abs=1e-15)
    assert recall_at(found_ids, torch.tensor(order), m) == pytest.approx(len({*found} & {*order[:m]}) / m, abs=1e-15)


def test_recall_refuses_what_it_cannot_count():
    ids = torch.arange(3)
    with pytest.raises(EmptyDataError, match="0/0"):
        recall_at(ids, ids[:0])
    with pytest.raises(DataError, match="twice"):
        recall_at(ids, torch.tensor([1, 1]))
    for m in (0, 4, -1):
        with pytest.raises(ConfigurationError, match="between 1 and the 3"):
            recall_at(ids, ids, m)
    with pytest.raises(ShapeError, match="1-D"):
        recall_at(ids[None], ids)


def subsets(queries=3, size=50, count=40, seed=0):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(queries, size, generator=generator, dtype=torch.float64)
    masks = torch.rand(count, size, generator=generator) < 0.5
    noise = torch.randn(queries, count, generator=generator, dtype=torch.float64)
    return scores, masks, noise


def test_linear_datamodeling_score_is_spearman_over_subsets(monkeypatch):
    scores, masks, noise = subsets()
    losses = torch.stack([torch.stack([row[mask].sum() for mask in masks]) for row in scores]) + 3 * noise
    expected = [
        scipy.stats.spearmanr([float(row[mask].sum()) for mask in masks], true).statistic
        for row, true in zip(scores, losses.numpy(), strict=True)
    ]
    assert 0.3 < min(expected) < max(expected) < 0.99  # neither trivial nor noise
    result = linear_datamodeling_score(scores, masks, losses)
    assert result.dtype == torch.float64
    assert result.tolist() == pytest.approx(expected, abs=1e-12)
    monkeypatch.setattr("fastif.metrics._COLUMNS", 7)  # in pieces, the last of them shorter
    assert linear_datamodeling_score(scores, masks.long(), losses).tolist() == pytest.approx(expected, abs=1e-12)


def test_linear_datamodeling_score_takes_our_sign_as_it_is():
    """Least squares solved again on every subset: what helps, trained on, lowers the loss."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(40, 3, generator=generator, dtype=torch.float64)
    y = x @ torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    y += torch.randn(40, generator=generator, dtype=torch.float64)
    query, target = torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64), 1.5
    weights = torch.linalg.lstsq(x, y[:, None]).solution[:, 0]
    gradients = (x @ weights - y)[:, None] * x
    query_gradient = (query @ weights - target) * query
    influence = -gradients @ torch.linalg.solve(x.T @ x / 40, query_gradient)
    masks = torch.rand(60, 40, generator=generator) < 0.8
    losses = []
    for mask in masks:
        retrained = torch.linalg.lstsq(x[mask], y[mask][:, None]).solution[:, 0]
        losses.append(0.5 * float(query @ retrained - target) ** 2)
    assert float(linear_datamodeling_score(influence[None], masks, torch.tensor([losses]))) > 0.9


def test_linear_datamodeling_score_says_which_query_and_what():
    scores, masks, noise = subsets()
    scores[1] = 0
    with pytest.raises(DataError, match=r"Query 1 .*x is constant"):
        linear_datamodeling_score(scores, masks, noise)
    scores[1, 0] = math.nan
    with pytest.raises(DataError, match=r"Query 1 .*x\[0\] is nan"):
        linear_datamodeling_score(scores, masks, noise)
    noise[0] = 2.5
    with pytest.raises(DataError, match=r"Query 0 .*y is constant"):
        linear_datamodeling_score(scores, masks, noise)
    with pytest.raises(DataError, match="0 and 1"):
        linear_datamodeling_score(scores, masks * 0.5, noise)
    for wrong in ((scores[:, 1:], masks, noise), (scores, masks[1:], noise), (scores[1:], masks, noise)):
        with pytest.raises(ShapeError, match=r"true_losses \(Q, S\)"):
            linear_datamodeling_score(*wrong)
    with pytest.raises(ShapeError, match=r"true_losses \(Q, S\)"):
        linear_datamodeling_score(scores[0], masks, noise)
