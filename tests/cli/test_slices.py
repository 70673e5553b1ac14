"""`fastif slices` as a user runs it."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import fastif
from fastif.apps.edges import choose_edges
from fastif.apps.slices import compare_slices
from fastif.cli.app import run
from tests.cli.stored import store_run

NAMES: list[str | None] = ["a"] * 4 + ["b"] * 5 + ["c"]


def told_of(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert run(["slices", str(path), "--json", *options]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


def test_numbers_pictures_and_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = store_run(tmp_path / "run", NAMES)
    told = told_of(
        path, capsys, "--top", "6", "--choose", "strongest", "-o", str(tmp_path / "out"), "--format", "png,pdf"
    )
    edges = choose_edges(fastif.Scores.load(path / "scores"), 6, by="strongest")
    expected = compare_slices(edges, [name or "" for name in NAMES])
    assert told["slices"] == json.loads(json.dumps(expected.as_json()["slices"]))
    assert told["pairs"] == list(expected.as_json()["pairs"])
    assert "Of 60 edges" in " ".join(told["summary"])
    assert told["notes"] == ["Slice c has one query: what is told of such a slice is told of that query alone."]
    names = {"slices.png", "slices.pdf", "correlations.png", "correlations.pdf", "slices.json"}
    assert {file.name for file in (tmp_path / "out").iterdir()} == names == {Path(file).name for file in told["files"]}
    written = json.loads((tmp_path / "out" / "slices.json").read_text())
    assert written == {name: value for name, value in told.items() if name != "files"}


@pytest.mark.parametrize("name", ["slices.json", "slices.png", "correlations.png"])
def test_a_file_that_is_there_is_replaced_if_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = store_run(tmp_path / "run", NAMES)
    mine = tmp_path / "out" / name
    mine.parent.mkdir()
    mine.write_text("mine")
    with monkeypatch.context() as patch:
        patch.setattr("fastif.cli.pictures.write", None)  # it is said before anything is drawn
        assert run(["slices", str(path), "-o", str(mine.parent)]) == 1
    assert f"{name} exists. Choose another name, or replace it with --force." in " ".join(
        capsys.readouterr().err.split()
    )
    assert [file.name for file in mine.parent.iterdir()] == [name]
    assert mine.read_text() == "mine"
    told_of(path, capsys, "-o", str(mine.parent), "--force")
    assert mine.read_bytes() != b"mine"


def test_reads_well_on_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = store_run(tmp_path / "run", [*NAMES[:9], "c [red]$x_\x1b[2J"])
    assert run(["slices", str(path), "--top", "5"]) == 0
    seen = capsys.readouterr()
    assert "Edges are the 5 most helpful and the 5 most harmful training points of each query." in seen.out
    assert "What it shows" in seen.out
    assert "c [red]" in seen.out  # names are no markup, and give no orders to the terminal
    assert "\x1b[2J" not in seen.out
    assert "1.00 (" in seen.out
    assert f"Written to {path / 'slices'}: slices.png, correlations.png, slices.json." in seen.err
    assert run(["slices", str(path), "--choose", "all", "--json"]) == 0  # and the run is still whole
    assert json.loads(capsys.readouterr().out)["top"] is None


def test_many_slices_are_a_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = store_run(tmp_path / "run", [f"slice {number}" for number in range(11)])
    assert run(["slices", str(path), "--choose", "all", "--no-pictures"]) == 0
    assert "and slice" in (out := capsys.readouterr().out)
    assert "31 between are in slices.json" in out


def test_queries_without_slices_are_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = store_run(tmp_path / "run", [None] * 4)
    told = told_of(path, capsys)
    assert [(it["name"], it["queries"]) for it in told["slices"]] == [("all", 4)]
    assert "have no slices, so that all 4 of them are taken as one" in told["notes"][0]
    assert "fastif explain --query-slice" in told["notes"][0]
    assert {Path(file).name for file in told["files"]} == {"slices.png", "slices.json"}  # one slice has no map


def test_one_slice_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = told_of(store_run(tmp_path / "run", ["a"] * 4), capsys)
    assert told["notes"] == ["All 4 queries are of one slice, a: there is no other to compare it with."]
    assert told["summary"][-1] == 'There is one slice only ("a"), so that no two can be compared.'


def test_an_empty_slice_is_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts = {"a": {"queries": 9, "explained": 4}, "gone": {"queries": 20, "explained": 0}}
    told = told_of(store_run(tmp_path / "run", ["a"] * 4, counts=counts), capsys)
    assert "Slice gone is empty: none of its 20 queries was explained" in told["notes"][0]
    assert told["slices"][1]["queries"] == 0
    assert told["pairs"][1]["reason"] == "gone has no query"
    assert "No two slices can be compared: gone has no query." in told["summary"]


def test_slices_that_no_training_point_shares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = torch.zeros(2, 30)
    values[0, :15], values[1, 15:] = torch.linspace(-1, 1, 15), torch.linspace(-2, 1, 15)
    told = told_of(store_run(tmp_path / "run", ["a", "b"], values=values), capsys)
    (pair,) = [pair for pair in told["pairs"] if pair["first"] != pair["second"]]
    assert (pair["points"], pair["correlation"]) == (0, None)


def test_without_matplotlib(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = store_run(tmp_path / "run", NAMES)
    for name in [name for name in sys.modules if name.startswith("fastif.integrations.plots.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # what importing finds of a package that is not there
    assert run(["slices", str(path)]) == 0
    seen = capsys.readouterr()
    assert "There is no figure, as matplotlib is not installed: pip install 'fastif[plots]'." in seen.err
    assert "helpful edges" in seen.out
    assert [file.name for file in (path / "slices").iterdir()] == ["slices.json"]
    assert run(["slices", str(path), "--no-pictures", "--json"]) == 0
    seen = capsys.readouterr()
    assert "There is no figure" not in seen.err
    assert json.loads(seen.out)["files"] == [str(path / "slices" / "slices.json")]
    assert run(["graph", str(path)]) == 2  # a picture is what it makes
    assert "which is not installed: pip install 'fastif[plots]'" in capsys.readouterr().err
    assert run(["graph", str(path), "--json"]) == 0
    seen = capsys.readouterr()
    assert "There is no figure" in seen.err
    assert json.loads(seen.out)["files"] == []


def test_failures_are_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["slices", str(tmp_path)]) == 1
    assert "is not a run" in capsys.readouterr().err
    path = store_run(tmp_path / "run", NAMES)
    assert run(["slices", str(path), "--format", "gif"]) == 2
    assert "--format gif must be of png, svg, pdf" in capsys.readouterr().err
    (tmp_path / "file").write_text("mine")
    assert run(["slices", str(path), "-o", str(tmp_path / "file")]) == 1
    assert "could not be written" in capsys.readouterr().err
    assert run(["slices", str(path), "--top", "0"]) == 2
    assert run(["slices", "--help"]) == 0
