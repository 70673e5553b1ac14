"""The estimate of peak memory holds to 30 % against a real explanation."""

import pytest

from fastif.bench.memory import SHAPES, measure


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", SHAPES)
def test_the_estimate_is_within_30_percent_of_the_measured_peak(name):
    row = measure(name, examples=96, device="cpu")
    assert 0.7 < row["ratio"] < 1.3, row
