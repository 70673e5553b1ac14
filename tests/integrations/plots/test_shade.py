"""The shade of many lines is where the lines are."""

import numpy as np

from fastif.integrations.plots.shade import shade


def test_weight_lies_along_the_lines() -> None:
    segments = np.array([[[-0.9, 0.0], [0.9, 0.0]], [[0.0, 0.1], [0.0, 0.9]]])
    dark = shade(segments, np.array([1.0, 100.0]), pixels=20, reach=1.0)
    assert dark.shape == (20, 20)
    rows, columns = dark.nonzero()
    assert set(rows[columns != 10].tolist()) == {10}  # the first line, from left to right; rows go upwards
    assert {row for row, column in zip(rows.tolist(), columns.tolist(), strict=True) if column == 10} >= set(
        range(11, 19)
    )
    assert dark[15, 10] > dark[10, 3] > 0
    assert dark.max() <= 1.0


def test_no_line_is_no_shade() -> None:
    assert not shade(np.empty((0, 2, 2)), np.empty(0), pixels=4, reach=1.0).any()
