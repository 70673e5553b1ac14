"""The pictures of slices have the numbers in them."""

from pathlib import Path

import torch

from fastif import Scores
from fastif.apps.edges import choose_edges
from fastif.apps.slices import Comparison, compare_slices
from fastif.integrations.plots.slices import draw_correlations, draw_slices
from fastif.integrations.plots.style import save


def comparison(names: list[str], *, spread: float = 1.0, empty: tuple[str, ...] = (), top: int = 9) -> Comparison:
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(len(names), 60, generator=generator) + torch.randn(60, generator=generator)
    values[0] *= spread
    edges = choose_edges(Scores(values, torch.arange(60).expand(len(names), 60)), top, by="strongest")
    return compare_slices(edges, names, empty=empty)


def words(axes: object) -> list[str]:
    return [text.get_text() for text in axes.texts]  # type: ignore[attr-defined]


def test_bars_have_counts_and_means(tmp_path: Path) -> None:
    found = comparison(["a", "a", "b", "b", "c"], empty=("d",))
    figure = draw_slices(found)
    counts, means = figure.axes
    assert words(counts) == [
        *(f"{it.helpful.edges}" if it.helpful.edges else "none" for it in found.slices),
        *(f"{it.harmful.edges}" if it.harmful.edges else "none" for it in found.slices),
    ]
    assert f"{found.slices[0].helpful.mean:.3g}" in words(means)
    assert [label.get_text() for label in counts.get_yticklabels()] == ["a (2)", "b (2)", "c (1)", "d (0)"]
    save(figure, tmp_path / "bars", ["png", "svg", "pdf"])


def test_means_far_apart_are_dots_on_a_logarithmic_scale() -> None:
    assert draw_slices(comparison(["a", "b", "c"])).axes[1].get_xscale() == "linear"
    far = draw_slices(comparison(["a", "b", "c"], spread=1000.0)).axes[1]
    assert far.get_xscale() == "log"
    assert not far.patches


def test_the_map_has_numbers_points_and_what_is_not_known(tmp_path: Path) -> None:
    found = comparison(["a", "a", "b", "b", "c"], empty=("d",))
    figure = draw_correlations(found)
    seen = words(figure.axes[0])
    pair = found.pair("a", "b")
    assert seen.count(f"{pair.correlation:.2f}") >= 2
    assert f"{pair.points} points" in seen
    assert seen.count("none") == 7  # d with each of the four, both ways
    assert len(seen) == 2 * 16
    first, second = (save(draw_correlations(found), tmp_path / name, ["svg"])[0] for name in ("one", "two"))
    assert first.read_bytes() == second.read_bytes()


def test_many_slices_are_colours_alone(tmp_path: Path) -> None:
    figure = draw_correlations(comparison([f"slice number {number}" for number in range(20)], top=40))
    assert not words(figure.axes[0])
    save(figure, tmp_path / "map")
