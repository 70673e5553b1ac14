"""The benchmark of block products runs, and its two ways agree."""

from fastif.bench.products import WIDTHS, measure


def test_both_ways_give_the_same_products() -> None:
    rows = measure("MLP", 20, "cpu")
    assert [row["vectors"] for row in rows] == list(WIDTHS)
    assert max(row["relative_difference"] for row in rows) < 1e-5
    assert {row["chosen"] for row in rows} == {"vectors"}  # nine rows an example, and one position
