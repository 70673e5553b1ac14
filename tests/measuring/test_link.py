"""What sending takes, and the prediction for several GPUs, against numbers made by hand."""

import pytest

from fastif.measuring.link import Link, bytes_of, on_several, ring


def test_an_all_reduce_is_a_ring():
    assert ring(4) == 1.5
    assert bytes_of(1_000_000, vectors=4) == 16_000_000
    # 24 MB through each link at 1 GB/s, and one call
    assert Link(bandwidth=1e9, latency=1e-3).seconds(1, ring(4) * bytes_of(1_000_000, vectors=4)) == pytest.approx(
        0.025
    )


def test_four_gpus_solve_one_repeat_each_and_score_a_quarter():
    row = {"T": 4, "seconds": 10.0, "solving_s": 3.5, "scoring_s": 6.0}
    it = on_several(row, 2.0, 1_000_000, Link(bandwidth=1e9, latency=1e-3))
    assert it["solving_s"] == 2.0
    assert it["sending_s"] == pytest.approx(0.025)
    assert it["scoring_s"] == pytest.approx(1.5)
    assert it["rest_s"] == pytest.approx(0.5)
    assert it["seconds"] == pytest.approx(4.025)
    assert (it["gpus"], it["bandwidth"], it["latency"]) == (4, 1e9, 1e-3)


def test_the_assumed_link_carries_the_solutions_of_the_paper_in_milliseconds():
    # 1.5 x 4 x 4 x 14,768,643 bytes = 354.4 MB at 25 GB/s, and 50 us
    row = {"T": 4, "seconds": 0.0, "solving_s": 0.0, "scoring_s": 0.0}
    assert on_several(row, 0.0, 14_768_643, Link())["seconds"] == pytest.approx(0.01422790, rel=1e-5)
