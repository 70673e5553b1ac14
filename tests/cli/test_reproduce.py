"""`fastif reproduce` on the command line: a result for people and for programs, and errors in words."""

import json

import pytest

from fastif.cli.app import run
from fastif.paper import experiments


def test_an_experiment_from_one_command(tmp_path, capsys):
    line = ["reproduce", "recall", "--scale", "smoke", "-o", str(tmp_path), "--device", "cpu"]
    assert run(line) == 0
    assert "paper, features" in capsys.readouterr().out
    assert run([*line, "--json"]) == 0  # drawn anew from what is there
    result = json.loads(capsys.readouterr().out)
    assert result["recall"]["request"]["experiment"] == "recall"
    assert (tmp_path / "recall/recall.png").exists()
    assert (tmp_path / "models/accuracy.md").exists()


def test_a_page_of_what_was_found(tmp_path, capsys):
    line = ["reproduce", "correlations", "--scale", "smoke", "-o", str(tmp_path / "out"), "--device", "cpu"]
    assert run(line) == 0
    capsys.readouterr()
    page = ["reproduce", "page", str(tmp_path / "out"), "-o", str(tmp_path / "docs/paper.md")]
    assert run(page) == 0
    assert "cannot tell here  fast influence values correlate" in capsys.readouterr().out
    assert "## Not run yet" in (tmp_path / "docs/paper.md").read_text(encoding="utf-8")
    assert (tmp_path / "docs/paper/correlations.png").exists()
    assert run([*page, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["published"] == ["correlations"]
    assert result["claims"][0]["outcome"] == "cannot tell here"


def test_a_page_that_is_no_page_and_results_that_nobody_asked_for(tmp_path, capsys):
    assert run(["reproduce", "page", str(tmp_path), "-o", str(tmp_path / "docs")]) == 2
    assert "must be the file of a page, and end in .md" in capsys.readouterr().err
    assert run(["reproduce", "recall", str(tmp_path), "-o", str(tmp_path / "out")]) == 2
    assert "only `fastif reproduce page` reads finished results" in capsys.readouterr().err


def test_names_that_are_none(tmp_path, capsys):
    assert run(["reproduce", "table3", "-o", str(tmp_path)]) == 2
    assert "there is no experiment 'table3': choose one of table1" in capsys.readouterr().err
    assert run(["reproduce", "table1", "--scale", "huge", "-o", str(tmp_path)]) == 2
    assert "there is no scale 'huge'" in capsys.readouterr().err


def test_without_data_it_is_said_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FASTIF_DATA", str(tmp_path))
    assert run(["reproduce", "recall", "--scale", "small", "-o", str(tmp_path / "out"), "--device", "cpu"]) == 1
    words = capsys.readouterr().err
    assert "mnli_train_subset.parquet, which is not there" in words
    assert "--scale smoke" in words


def test_all_goes_on_when_one_fails(tmp_path, monkeypatch, capsys):
    def fails(context):
        raise ValueError("nothing works")

    monkeypatch.setattr(experiments.table1, "run", fails)
    some = {name: experiments.EXPERIMENTS[name] for name in ("table1", "recall")}
    monkeypatch.setattr(experiments, "EXPERIMENTS", some)
    assert run(["reproduce", "all", "--scale", "smoke", "-o", str(tmp_path), "--device", "cpu", "--json"]) == 1
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert result["table1"]["error"] == "ValueError: nothing works"
    assert result["recall"]["result"]["rows"]
    assert "Failed: table1: ValueError: nothing works" in captured.err


def test_what_was_not_begun_cannot_stop_here(tmp_path, capsys):
    line = ["reproduce", "recall", "--scale", "smoke", "-o", str(tmp_path / "out"), "--device", "cpu", "--stop-here"]
    assert run(line) == 1
    assert "recall was not begun in" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", experiments.EXPERIMENTS)
def test_the_help_names_every_experiment(name, capsys):
    assert run(["reproduce", "--help"]) == 0
    assert name in capsys.readouterr().out
