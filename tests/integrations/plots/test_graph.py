"""The picture of a graph: what is in it, that it is the same file again, and that many edges stay a small file."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from fastif.apps.edges import Edges
from fastif.apps.graph import Graph, lay_out
from fastif.integrations.plots import graph as module
from fastif.integrations.plots.graph import draw_graph
from fastif.integrations.plots.style import HARMFUL, HELPFUL, save


def some(edges: int, *, queries: int = 12, train: int = 40, slices: int = 3, rings: bool = False) -> Graph:
    draw = np.random.default_rng(0)
    pairs = draw.choice(queries * train, edges, replace=False)
    values = draw.lognormal(0, 2, edges) * draw.choice([-1.0, 1.0], edges)
    names = [f"slice {query % slices}" for query in range(queries)]
    train_slices = [f"kind {index % 3}" for index in range(train)] if rings else None
    return lay_out(Edges(pairs // train, pairs % train, values, queries, "some"), names, train_slices=train_slices)


def lines_of(axes: Axes) -> LineCollection:
    (lines,) = [each for each in axes.collections if isinstance(each, LineCollection)]
    return lines


def words_of(figure: Figure) -> str:
    legends = [text.get_text() for legend in figure.legends for text in (legend.get_title(), *legend.get_texts())]
    return "\n".join([*legends, *(text.get_text() for axes in figure.axes for text in [axes.title, *axes.texts])])


def test_helpful_and_harmful_edges_have_a_circle_each() -> None:
    graph = some(100, rings=True)
    figure = draw_graph(graph, title="what it is")
    assert len(figure.axes) == 2
    for axes, side, colour in zip(figure.axes, graph.sides, (HELPFUL, HARMFUL), strict=True):
        lines = lines_of(axes)
        assert len(lines.get_segments()) == len(side.edges)
        assert {tuple((255 * rgba[:3]).round()) for rgba in np.asarray(lines.get_color())} == {
            tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))
        }
        assert side.sign.capitalize() in axes.get_title()
    words = words_of(figure)
    for name in ("slice 0", "slice 2 (4)", "kind 0", "kind 2", "|I| = ", "queries, by slice"):
        assert name in words


def test_the_strongest_edges_are_widest_and_above() -> None:
    figure = draw_graph(some(60))
    lines = lines_of(figure.axes[0])
    widths, opacities = np.asarray(lines.get_linewidths()), np.asarray(lines.get_color())[:, 3]
    assert (np.diff(widths) >= 0).all()
    assert (np.diff(opacities) >= 0).all()
    assert widths[-1] > 2 * widths[0]


def test_as_many_edges_as_asked_for_and_the_strongest() -> None:
    graph = some(100)
    figure = draw_graph(graph, most_edges=30)
    drawn = [len(lines_of(axes).get_segments()) for axes in figure.axes]
    assert sum(drawn) == 30
    assert f"the strongest {drawn[0]} of {len(graph.helpful.edges)} edges" in figure.axes[0].get_title()


def test_every_format_is_written_and_the_same_again(tmp_path: Path) -> None:
    graph = some(50, rings=True)
    first = save(draw_graph(graph), tmp_path / "one", ["png", "svg", "pdf"])
    second = save(draw_graph(graph), tmp_path / "two", ["png", "svg", "pdf"])
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert b"<image" not in first[1].read_bytes()  # few edges are shapes


def test_many_edges_are_a_shade_and_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_LINES", 300)
    monkeypatch.setattr(module, "LINES_ABOVE_SHADE", 50)
    monkeypatch.setattr(module, "MOST_SHAPES", 40)
    graph = some(2000, queries=40, train=200)
    figure = draw_graph(graph)
    for axes in figure.axes:
        assert len(lines_of(axes).get_segments()) == 50
        assert len(axes.images) == 1
    assert "shade: 1,900 weaker ones" in words_of(figure)
    (file,) = save(figure, tmp_path / "many", ["svg"])
    assert file.read_bytes().count(b"<image") >= 4  # a shade and pixels of lines in each circle
    assert file.read_bytes().count(b"<path") < 1000


@pytest.mark.parametrize("slices", [1, 9, 40])
def test_any_number_of_slices_can_be_drawn(slices: int, tmp_path: Path) -> None:
    figure = draw_graph(some(60, queries=40, slices=slices))
    save(figure, tmp_path / "picture")
    words = words_of(figure)
    assert ("and 29 smaller ones" in words) == (slices == 40)


def test_a_name_that_would_run_into_the_next_is_in_the_legend_alone() -> None:
    draw = np.random.default_rng(0)
    edges = Edges(np.arange(60), np.arange(60), draw.normal(size=60), 60, "some")
    figure = draw_graph(lay_out(edges, ["large"] * 59 + ["a slice of one query"]))
    assert [text.get_text() for text in figure.axes[0].texts] == ["large"]
    assert "a slice of one query (1)" in words_of(figure)


def test_nothing_to_draw_is_a_picture_all_the_same(tmp_path: Path) -> None:
    empty = np.empty(0, dtype=np.int64)
    graph = lay_out(Edges(empty, empty, np.empty(0), 2, "none"), ["a", "b"])
    figure = draw_graph(graph)
    save(figure, tmp_path / "empty", ["png", "pdf"])
    assert "Helpful: 0 edges" in figure.axes[0].get_title()


def test_one_edge() -> None:
    graph = lay_out(Edges(np.array([0]), np.array([3]), np.array([-2.0]), 1, "one"), ["a"])
    assert "|I| = 2" in words_of(draw_graph(graph))
