"""Student's intervals: against scipy, and what has no interval."""

import math

import pytest
import scipy.stats
import torch

from fastif.errors import ConfigurationError, DataError, EmptyDataError, ShapeError
from fastif.intervals import Interval, mean_interval, paired_interval, student_quantile


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 9, 24, 101])
@pytest.mark.parametrize("probability", [0.5, 0.6, 0.975, 0.9995])
def test_quantiles_are_those_of_scipy(freedom: int, probability: float) -> None:
    expected = scipy.stats.t.ppf(probability, freedom)
    assert student_quantile(probability, freedom) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_a_paired_interval_is_that_of_a_paired_t_test() -> None:
    draw = torch.Generator().manual_seed(0)
    first, second = torch.randn(2, 7, generator=draw, dtype=torch.float64)
    found = paired_interval(first, second, confidence=0.9)
    expected = scipy.stats.ttest_rel(first, second).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.mean == pytest.approx(float((first - second).mean()))
    assert found.count == 7


def test_what_the_draws_share_falls_out() -> None:
    shared = torch.tensor([0.0, 5.0, -3.0])
    found = paired_interval(shared + torch.tensor([1.0, 1.1, 0.9]), shared)
    assert found.is_above_zero
    assert not found.is_below_zero
    unpaired = mean_interval(shared)
    assert not unpaired.is_above_zero


def test_one_number_has_no_interval() -> None:
    found = mean_interval([2.0])
    assert found == Interval(2.0, None, None, 1)
    assert not found.is_above_zero
    assert found.as_json() == {"mean": 2.0, "low": None, "high": None, "count": 1}


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(EmptyDataError):
        mean_interval([])
    with pytest.raises(DataError, match="finite"):
        mean_interval([1.0, math.nan])
    with pytest.raises(ShapeError):
        paired_interval([1.0], [1.0, 2.0])
    with pytest.raises(ShapeError):
        mean_interval(torch.ones(2, 2))
    with pytest.raises(ConfigurationError):
        mean_interval([1.0, 2.0], confidence=1.0)
    with pytest.raises(ConfigurationError):
        student_quantile(0.2, 3)
