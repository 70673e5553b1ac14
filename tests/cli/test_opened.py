"""A run that somebody else made runs no code of theirs unless that is said on the line."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from fastif.cli.app import run
from fastif.cli.live import Correction, Questions
from fastif.cli.opened import open_run
from fastif.errors import StoredFileError
from fastif.web.server.jobs import Job, Report

CODE = """
from pathlib import Path
from transformers import BertConfig, BertForSequenceClassification
Path({touched!r}).touch()
class Config(BertConfig):
    model_type = {kind!r}
class Model(BertForSequenceClassification):
    config_class = Config
"""
TRUST = "--trust-remote-code"


def _foreign(folder: Path, place: Path, kind: str) -> Path:
    """Write a run that was made with --trust-remote-code, of a model whose code touches a file; return the run."""
    shutil.copytree(folder / "model", place / "model")
    shutil.copytree(folder / "why", place / "why")
    (place / "model" / "own.py").write_text(CODE.format(touched=str(place / "touched"), kind=kind))
    config = json.loads((place / "model" / "config.json").read_text())
    code = {"AutoConfig": "own.Config", "AutoModelForSequenceClassification": "own.Model"}
    (place / "model" / "config.json").write_text(json.dumps({**config, "model_type": kind, "auto_map": code}))
    description = json.loads((place / "why" / "run.json").read_text())
    given = {"model": str(place / "model"), "trust_remote_code": True}
    description["request"]["arguments"] |= given
    (place / "why" / "run.json").write_text(json.dumps(description))
    return place / "why"


@pytest.fixture
def foreign(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    return _foreign(folder, tmp_path, "own")


def _line(command: str, folder: Path) -> list[str]:
    query = str(folder / "query.csv")
    pool = ["--pool", query] if command == "augment" else []
    sets = ["--anchors", query, "--test", query] if command in ("correct", "augment") else []
    return [*pool, *sets]


@pytest.mark.parametrize("command", ["rerun", "recall", "correct", "augment", "retrain", "simulate", "tradeoff"])
def test_code_of_a_run_is_not_run(
    folder: Path, foreign: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, str(foreign), *_line(command, folder)]) == 1
    assert "comes with code of its own, which is not run" in capsys.readouterr().err
    assert not (foreign.parent / "touched").exists()


def test_the_page_runs_no_code_either(folder: Path, foreign: Path) -> None:
    report = Report(Job(1, "ask", "a", {}), lambda: None)
    question = {"text": "dull", "text_pair": None, "label": None}
    query = str(folder / "query.csv")
    with pytest.raises(StoredFileError, match=TRUST):
        Questions(open_run(foreign))(question, report)
    with pytest.raises(StoredFileError, match=TRUST):
        Correction(open_run(foreign), query, query)({}, report)
    assert not (foreign.parent / "touched").exists()
    trusted = Correction(open_run(foreign, trust_remote_code=True), query, query)
    assert trusted.arguments()["trust_remote_code"] is True
    assert f" {TRUST} " in trusted.command()


def test_who_trusts_it_says_so(foreign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["recall", str(foreign), "--k", "10", "--m", "5", "--json"]
    assert run([*line, TRUST, "-o", str(tmp_path / "recall")]) == 0
    assert (foreign.parent / "touched").exists()
    request: dict[str, Any] = json.loads((tmp_path / "recall" / "run.json").read_text())["request"]
    assert "trust_remote_code" not in request["arguments"]  # so that work of old goes on
    capsys.readouterr()


def test_weights_that_another_class_reads_without_the_code_are_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = _foreign(folder, tmp_path, "bert")  # which transformers has a class of its own for
    assert run(["recall", str(foreign)]) == 1
    assert f"give {TRUST}" in capsys.readouterr().err
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize("command", ["rerun", "recall", "correct"])
def test_arguments_that_a_run_lacks_are_named(
    folder: Path, tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(folder / "why", tmp_path / "why")
    description = json.loads((tmp_path / "why" / "run.json").read_text())
    for name in ("device", "train"):
        del description["request"]["arguments"][name]
    (tmp_path / "why" / "run.json").write_text(json.dumps(description))
    assert run([command, str(tmp_path / "why"), *_line(command, folder)]) == 1
    assert "does not say with which device, train the run was made" in capsys.readouterr().err


def test_a_run_with_relative_names_is_gone_on_from_anywhere_and_can_be_moved(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "project"
    (project / "models").mkdir(parents=True)
    shutil.copytree(folder / "model", project / "models" / "a")
    for name in ("train.csv", "query.csv"):
        shutil.copy(folder / name, project / name)
    monkeypatch.chdir(project)
    given = ["explain", "models/a", "--train", "train.csv", "--query", "query.csv", "-o", "runs/why"]
    assert run(given) == 0
    moved = project.rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    assert run(["rerun", "moved/runs/why"]) == 0
    assert "byte for byte" in capsys.readouterr().out
    assert run(["recall", "moved/runs/why", "--k", "5"]) == 0
    assert run(["rerun", "moved/runs/why", "-o", "moved/again"]) == 0
    moved = moved.rename(tmp_path / "moved once more")  # a replay can be moved too, and names its files as the first
    monkeypatch.chdir(moved)
    first, again = (json.loads((Path(place) / "run.json").read_text()) for place in ("runs/why", "again"))
    assert first["request"] == again["request"]
    assert run(["rerun", "again"]) == 0
    capsys.readouterr()
    assert run(given) == 0  # is the same request
    assert "finished run of the same request" in capsys.readouterr().err


def test_where_a_run_was_made_is_no_part_of_what_was_asked_for(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project, cache = tmp_path / "project", ["--cache", "states"]  # a relative name of what is not there at first
    project.mkdir()
    data = ["--train", str(folder / "train.csv"), "--query", str(folder / "query.csv")]
    line = ["explain", str(folder / "model"), *data, *cache, "-o", str(tmp_path / "why")]
    monkeypatch.chdir(project)
    assert run(line) == 0
    monkeypatch.chdir(project.rename(tmp_path / "moved"))
    assert run(line) == 0
    assert "finished run of the same request" in capsys.readouterr().err
