"""`fastif recall` as a user runs it: what it writes, what it says, and how it fails."""

import json
import sys
from pathlib import Path

import pytest

from fastif.cli.app import run


def test_writes_tells_and_draws(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "recall"
    line = ["recall", str(folder / "why"), "--k", "5,20", "--m", "3", "-o", str(out)]
    assert run(line) == 0
    seen = capsys.readouterr()
    assert "R@3: strongest/most helpful/most harmful" in seen.out
    assert "With 20 candidates of 60 (33.3%)" in seen.out
    assert "Queries predicted wrong" in seen.out
    assert {file.name for file in out.iterdir()} - {".lock"} == {
        "run.json",
        "result.json",
        "recall.png",
        "recall-features.png",
    }
    result = json.loads((out / "result.json").read_text())
    assert {row["method"] for row in result["rows"]} == {"features", "head-gradient", "both", "random"}
    assert {row["group"] for row in result["rows"]} == {"right", "wrong", "all"}
    assert all(0 <= row["mean"] <= 1 for row in result["rows"])
    assert run(["recall", str(folder / "why"), "--by", "head-gradient", "--k", "60", "--json"]) == 0
    seen = capsys.readouterr()
    result = json.loads(seen.out)
    assert {row["mean"] for row in result["rows"]} == {1.0}  # all are candidates
    assert "Looking for the first" in seen.err


def test_queries_without_labels_are_one_group(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["recall", str(folder / "unlabelled"), "--k", "10", "--m", "3", "--json"]) == 0
    seen = capsys.readouterr()
    assert {row["group"] for row in json.loads(seen.out)["rows"]} == {"all"}
    assert "The queries have no labels" in seen.err


def test_without_matplotlib_there_are_numbers(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("fastif.integrations.plots.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # what importing finds of a package that is not there
    out = tmp_path / "recall"
    assert run(["recall", str(folder / "why"), "--k", "5", "--m", "3", "--json", "-o", str(out)]) == 0
    seen = capsys.readouterr()
    assert "There is no figure, as matplotlib is not installed" in seen.err
    assert json.loads(seen.out) == json.loads((out / "result.json").read_text())
    assert {file.name for file in out.iterdir()} - {".lock"} == {"run.json", "result.json"}


def test_failures_are_one_message(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line, words, status in (
        (["recall", str(folder / "candidates"), "--m", "3"], "20 of 60 training examples (Nearest(k=20", 1),
        (["recall", str(folder / "why"), "--m", "59"], "so that recall@59 has no meaning", 1),
        (["recall", str(folder / "why"), "--k", "100", "--m", "3"], "more than all", 2),
        (["recall", str(folder / "why"), "--k", "0", "--m", "3"], "k must be whole numbers", 2),
    ):
        assert run(line) == status
        seen = " ".join(capsys.readouterr().err.split())
        assert words in seen
        assert "Traceback" not in seen
