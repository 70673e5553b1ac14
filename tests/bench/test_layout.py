"""The benchmark of the layout runs on a small graph, and no place of its own is worse than a general solver's."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from fastif.bench.layout import Plan, made_up_edges, run, table
from fastif.cli.app import run as command
from fastif.errors import ConfigurationError

SMALL = Plan(queries=40, train_points=60, edges=300, sample=20, repeats=1)


def test_edges_are_as_many_as_asked_for() -> None:
    edges = made_up_edges(SMALL)
    assert len(edges) == 300
    assert len(np.unique(edges.train_ids)) == 60
    assert len(np.unique(edges.train_ids * 40 + edges.queries)) == 300
    with pytest.raises(ConfigurationError, match="at least as many"):
        Plan(queries=4, train_points=10, edges=9)


def test_no_place_is_worse_than_that_of_a_general_solver() -> None:
    result = run(SMALL)
    assert result["edges"] == 300
    assert result["general"]["worse"] == 0
    assert result["general"]["as_good_or_better"] == 20
    assert "extrapolated from 20" in table(result)


def test_without_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    result = run(SMALL)
    assert result["general"] is None
    assert "scipy is not installed" in table(result)


def test_the_command_writes_figures_that_the_page_is_made_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "figures" / "layout.json"
    line = ["bench", "layout", "--queries", "40", "--points", "60", "--edges", "300", "--sample", "2"]
    assert command([*line, "--out", str(file), "--json"]) == 0
    assert json.loads(file.read_text()) == json.loads(capsys.readouterr().out)
    assert command(["bench", "page", "--figures", str(file.parent), "--out", str(tmp_path / "page.md")]) == 0
    assert "Layout of a graph of influence" in (tmp_path / "page.md").read_text()
