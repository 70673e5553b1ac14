"""The figure of a correction: its panels and lines, what it does with many slices, and that it is the same file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastif.integrations.plots.correction import KINDS, draw_by_slice, draw_courses
from fastif.integrations.plots.style import save


def result(parts: int = 3, repeats: int = 2, steps: int = 4, kinds: tuple[str, ...] = tuple(KINDS)) -> dict[str, Any]:
    draw = np.random.default_rng(0)
    return {
        "parts": [{"title": f"slice {number}", "examples": 1000 + number} for number in range(parts)],
        "courses": [
            {
                "kind": kind,
                "repeat": repeat,
                "loss": draw.random((steps + 1, parts)).tolist(),
                "accuracy": draw.random((steps + 1, parts)).tolist(),
            }
            for kind in kinds
            for repeat in range(repeats)
        ],
    }


def test_a_panel_for_each_part_with_a_line_for_each_kind() -> None:
    told = result()
    figure = draw_courses(told, title="Steps")
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert len(shown) == 2 * 3
    for number, axes in enumerate(shown):
        measure, part = ("loss", "accuracy")[number // 3], number % 3
        assert [line.get_label() for line in axes.lines] == list(KINDS)
        assert len({line.get_marker() for line in axes.lines}) == 4  # told apart without colour
        for line in axes.lines:
            walks = [one[measure] for one in told["courses"] if one["kind"] == line.get_label()]
            np.testing.assert_allclose(line.get_ydata(), np.mean(walks, axis=0)[:, part])
    assert figure.get_suptitle() == "Steps: mean and range of 2 repeats"
    assert shown[0].get_title() == "slice 0\n1,000 examples"


@pytest.mark.parametrize(("parts", "panels"), [(1, 2), (7, 14), (40, 30)])
def test_few_and_many_parts(parts: int, panels: int, tmp_path: Path) -> None:
    figure = draw_courses(result(parts, repeats=1, kinds=("helpful",)))
    assert sum(axes.get_visible() for axes in figure.axes) == panels
    assert figure.get_suptitle() == "One repeat"
    (file,) = save(figure, tmp_path / "figure")
    assert file.stat().st_size > 1000


def test_a_row_for_each_slice_of_the_anchors() -> None:
    told = {"one": result(), "two": result()}
    for one in told["two"]["courses"]:
        one["accuracy"] = (0.1 * np.array(one["accuracy"])).tolist()
    figure = draw_by_slice(told, measure="accuracy", title="Corrections")
    assert len(figure.axes) == 2 * 3
    last = figure.axes[-1].lines[0]
    walks = [one["accuracy"] for one in told["two"]["courses"] if one["kind"] == "helpful"]
    np.testing.assert_allclose(last.get_ydata(), np.mean(walks, axis=0)[:, 2])
    low, high = figure.axes[0].get_ylim()  # shared by both rows, and fit for both
    assert low < 0.1
    assert high > 0.5
    assert figure.axes[3].get_ylabel() == "anchors: two\naccuracy"


def test_the_same_numbers_give_the_same_file(tmp_path: Path) -> None:
    files = [save(draw_courses(result()), tmp_path / name, ("png", "svg", "pdf")) for name in ("one", "two")]
    for one, other in zip(*files, strict=True):
        assert one.read_bytes() == other.read_bytes()
