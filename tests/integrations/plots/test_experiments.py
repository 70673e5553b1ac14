"""The pictures of retraining, simulatability, recall and the trade-off: their panels, axes, lines and legends."""

from pathlib import Path
from typing import Any

import pytest
import torch

from fastif.apps.recall import Recalled, RecallTable
from fastif.apps.removals import Removal
from fastif.apps.retrained import Retrained
from fastif.apps.simulated import Simulated
from fastif.apps.traded import Traded

pytest.importorskip("matplotlib")

from fastif.integrations.plots.recall import draw_recall, draw_recall_methods
from fastif.integrations.plots.retraining import draw_retraining
from fastif.integrations.plots.simulatability import draw_simulatability
from fastif.integrations.plots.style import save
from fastif.integrations.plots.tradeoff import draw_tradeoff

COUNTS = (1, 5, 25)


def retrained(systems: tuple[str, ...] = ("influence",), draws: int = 2, right: Any = (True, False)) -> Retrained:
    removals = [
        Removal(kind, tuple(range(count)), query, system)  # type: ignore[arg-type]
        for system in systems
        for query in range(len(right))
        for kind in ("helpful", "harmful")
        for count in COUNTS
    ]
    removals += [
        Removal("random", tuple(range(count)), label=label, draw=draw)
        for label in ("yes", "no")
        for draw in range(draws)
        for count in COUNTS
    ]
    losses = torch.rand(2, 1 + len(removals), len(right), generator=torch.Generator().manual_seed(0)).double()
    return Retrained(tuple(removals), losses, (0, 1), losses[0, 0], right, 100)


def lines(panel: Any) -> dict[str, Any]:
    return {handle.get_label(): handle for handle in panel.containers}


def legend(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_retraining_has_a_panel_a_group_a_line_a_kind_and_the_noise() -> None:
    done = retrained()
    figure = draw_retraining(done)
    assert [panel.get_title() for panel in figure.axes] == [
        "Queries predicted right (1)",
        "Queries predicted wrong (1)",
    ]
    names = ["helpful", "harmful", "random, yes", "random, no"]
    assert set(names) < set(legend(figure))
    assert "noise" in legend(figure)[0]
    panel = figure.axes[0]
    assert panel.get_xlabel() == "training examples removed"
    assert panel.get_ylabel() == "change of the query's loss after retraining"
    drawn = lines(panel)["helpful"].lines[0]
    assert drawn.get_xdata().tolist() == list(COUNTS)
    expected = [each.mean for each in done.lines() if (each.group, each.line.name) == ("right", "helpful")]
    assert drawn.get_ydata().tolist() == pytest.approx(expected)
    assert len(panel.collections) >= 1  # the band


def test_systems_differ_in_their_dashes_and_one_group_is_one_panel() -> None:
    figure = draw_retraining(retrained(systems=("fast, k = 1000", "full"), draws=1, right=(None, None)))
    (panel,) = figure.axes
    assert panel.get_title() == "All queries (2)"
    drawn = lines(panel)
    styles = {drawn[f"helpful, {system}"].lines[0].get_linestyle() for system in ("fast, k = 1000", "full")}
    assert len(styles) == 2


def test_simulatability_has_a_panel_a_query_those_that_are_right_first() -> None:
    kinds = ("helpful", "harmful", "random, a", "random, b", "random, c")
    losses = torch.rand(5, 5, 3, 4, generator=torch.Generator().manual_seed(0)).double()
    right = (False, True, False, True, True)
    done = Simulated(kinds, (1e-5, 1e-4, 1e-3, 1e-2), losses, losses[:, 0, 0, 0], right, 0.9, 0.8)
    figure = draw_simulatability(done, titles=["zero", "one $", "two", "three", "four " * 20])
    panels = [panel for panel in figure.axes if panel.get_visible()]
    titles = [panel.get_title() for panel in panels]
    assert titles[:2] == [r"right: one \$", "right: three"]
    assert titles[2].endswith("…")
    assert titles[3:] == ["WRONG: zero", "WRONG: two"]
    assert legend(figure) == list(kinds)
    assert panels[0].get_xscale() == "log"
    assert panels[0].lines[0].get_ydata() == pytest.approx(done.curves()["mean"][1, 0].numpy())
    assert len([panel for panel in draw_simulatability(done, most=2).axes if panel.get_visible()]) == 2


def recalled(groups: tuple[str, ...] = ("right", "wrong", "all")) -> RecallTable:
    rows = [
        Recalled(method, kind, m, k, group, k / 1000, 0.1, 5)
        for method in ("features", "head-gradient", "random")
        for kind in ("helpful", "harmful", "absolute")
        for m in (10, 100)
        for k in (10, 100, 1000)
        for group in groups
    ]
    return RecallTable(tuple(rows), 1000)


def test_recall_by_kind_and_by_method() -> None:
    figure = draw_recall(recalled(), "features")
    assert len(figure.axes) == 4  # two groups, two numbers
    assert legend(figure) == ["chance", "helpful", "harmful", "absolute"]
    assert [panel.get_title() for panel in figure.axes[:2]] == ["R@10", "R@100"]
    assert figure.axes[0].get_ylabel() == "Queries predicted right"
    assert lines(figure.axes[0])["helpful"].lines[0].get_xdata().tolist() == [10, 100, 1000]
    assert len(draw_recall(recalled(("all",)), "features").axes) == 2
    methods = draw_recall_methods(recalled())
    assert len(methods.axes) == 6  # three kinds, two numbers
    assert legend(methods) == ["chance", "features", "head-gradient"]


def test_the_trade_off_has_a_column_a_t_a_line_a_b_and_the_time() -> None:
    shape = (3, 2, 4)
    errors = torch.rand(*shape, 6, generator=torch.Generator().manual_seed(0)).double() + 0.01
    expensive = errors.clone()
    expensive[-1, -1, -1] = 0  # the dearest against itself
    seconds = torch.arange(1.0, 25.0).reshape(shape).double()
    right = (True, False) * 3
    done = Traded((10, 20, 30, 40), (1, 8, 64), (1, 4), 50.0, 100, expensive, errors, errors[0, 0, 0], seconds, right)
    figure = draw_tradeoff(done)
    assert len(figure.axes) == 6
    assert [panel.get_title() for panel in figure.axes[:3]] == ["T = 1", "T = 4", "time, T = 1"]
    assert legend(figure) == ["B = 1", "B = 8", "B = 64", "no solve: v / damping"]
    assert len(figure.axes[0].lines) == 3
    assert figure.axes[2].get_ylabel() == "seconds for one query"
    assert figure.axes[3].get_ylabel() == "error against\nthe converged solution"
    assert draw_tradeoff(done, "wrong").axes[0].lines[0].get_ydata()[0] == pytest.approx(
        float(expensive[0, 0, 0, 1::2].mean())
    )


def test_the_same_picture_is_the_same_file(tmp_path: Path) -> None:
    for name in ("one", "two"):
        save(draw_retraining(retrained()), tmp_path / name, ("png", "svg"))
    for kind in ("png", "svg"):
        assert (tmp_path / f"one.{kind}").read_bytes() == (tmp_path / f"two.{kind}").read_bytes()
