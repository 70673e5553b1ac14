"""`fastif retrain` as a user runs it: what it writes, what it says, that it goes on, and how it fails."""

import json
from pathlib import Path
from typing import Any

import pytest

from fastif.apps.stack import StackTraining
from fastif.cli.app import run
from tests.cli.tiny import save, table


def line(folder: Path, *more: str) -> list[str]:
    return ["retrain", str(folder / "why"), "--seeds", "2", "--draws", "2", *more]


def test_writes_tells_and_draws(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "without"
    assert run(line(folder, "--remove", "1,4", "-o", str(out), "--format", "png,svg")) == 0
    seen = capsys.readouterr()
    assert "Change of the loss after retraining, queries predicted right" in seen.out
    assert "random, bright" in seen.out
    assert "noise" in seen.out
    assert "The seed alone moves the loss of a query by" in seen.out
    assert "from " in seen.err
    assert "AdamW, 2 epochs, batches of 16, learning rate 0.005" in seen.err
    assert {file.name for file in out.iterdir()} - {".lock"} == {
        "run.json",
        "result.json",
        "result.safetensors",
        "retraining.png",
        "retraining.svg",
    }
    result = json.loads((out / "result.json").read_text())
    assert [one["text"] for one in result["queries"]] == ["the film was good", "a dull plot", "we found it poor"]
    # with the seed of its own training and nothing removed, the model comes out again
    for one in result["queries"]:
        assert one["retrained_losses"][0] == pytest.approx(one["loss"], abs=1e-4)
    helpful = [one for one in result["removals"] if one["kind"] == "helpful" and one["count"] == 4]
    assert len(helpful) == 3
    assert len(helpful[0]["changes"]) == 2
    assert len(result["removals"]) == 3 * 2 * 2 + 2 * 2 * 2
    assert run([*line(folder, "--remove", "1,4", "-o", str(out), "--format", "png,svg"), "--json"]) == 0
    again = capsys.readouterr()
    assert json.loads(again.out) == result
    assert "is a finished run of the same request" in again.err


def test_the_usual_numbers_as_far_as_there_are(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--seeds", "1", "--draws", "1", "--queries", "1", "--json"]
    assert run(["retrain", str(folder / "why"), *given]) == 0
    seen = capsys.readouterr()
    result = json.loads(seen.out)
    counts = {one["count"] for one in result["removals"]}
    assert {1, 5} <= counts < {1, 5, 25, 50, 100}
    assert "there are not for every query and label" in seen.err
    assert len(result["queries"]) == 1
    assert result["seed_noise"] is None


def test_a_run_that_was_stopped_goes_on(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = line(folder, "--remove", "1", "--queries", "1", "--json", "-o")
    assert run([*given, str(tmp_path / "whole")]) == 0
    whole = json.loads(capsys.readouterr().out)
    fit, trained = StackTraining.fit, []

    def stopping(self: StackTraining, *arguments: Any, **named: Any) -> Any:
        trained.append(named["seed"])
        if len(trained) == 2:
            raise KeyboardInterrupt
        return fit(self, *arguments, **named)

    monkeypatch.setattr(StackTraining, "fit", stopping)
    assert run([*given, str(tmp_path / "stopped")]) == 130
    assert run([*given, str(tmp_path / "stopped")]) == 0
    assert trained == [0, 1, 1]  # the first seed is not trained again
    assert json.loads(capsys.readouterr().out) == whole


def test_a_start_that_is_given(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = line(folder, "--remove", "1", "--queries", "1", "--json")
    assert run([*given, "--warm", "--epochs", "1", "--training-batch", "8", "--learning-rate", "1e-3"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert "the weights of the model itself; AdamW, 1 epochs, batches of 8, learning rate 0.001" in result["trained"]
    assert run([*given, "--base", str(folder / "base"), "--weight-decay", "0"]) == 0
    assert "base with a new head" in json.loads(capsys.readouterr().out)["trained"]


@pytest.mark.parametrize(
    ("change", "words", "status"),
    [
        (["--remove", "59"], "helpful training examples among those that were scored, and 59 are to be removed", 1),
        (["--remove", "many"], "--remove takes whole numbers", 2),
        (["--remove", "0"], "whole numbers of at least 1", 2),
        (["--base", "here", "--warm"], "give one of them", 2),
        (["--base", "/nothing/here/at/all"], "there is no checkpoint at", 1),
        (["--learning-rate", "0"], "learning_rate must be a number above 0", 2),
        (["--learning-rate", "1e30", "--remove", "1"], "Lower the learning rate", 1),
        (["--format", "jpg", "--remove", "1"], "--format jpg must be of png, svg, pdf", 2),
    ],
)
def test_failures_are_one_message(
    change: list[str], words: str, status: int, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*line(folder, "--queries", "1"), *change, "-o", str(tmp_path / "out")]) == status
    seen = " ".join(capsys.readouterr().err.split())
    assert words in seen
    assert "Traceback" not in seen


def test_formats_are_looked_at_also_where_nothing_is_drawn(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(line(folder, "--queries", "1", "--format", "jpg")) == 2
    assert "--format jpg must be of png, svg, pdf" in " ".join(capsys.readouterr().err.split())


def test_what_cannot_be_retrained_says_why(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["retrain", str(folder / "unlabelled"), "--remove", "1"]) == 1
    assert "the queries have no labels" in capsys.readouterr().err
    assert run([*line(folder, "--remove", "1"), "-o", str(folder / "why")]) == 2
    assert "is the run itself" in capsys.readouterr().err
    assert run(["retrain", str(folder / "candidates"), "--remove", "19"]) == 1
    assert "among those that were scored, and 19 are to be removed" in capsys.readouterr().err
    model, train = save(tmp_path / "model"), table(tmp_path / "train.tsv")
    explain = ["explain", str(model), "--train", str(train), "--query", str(train), "--limit", "1"]
    assert run([*explain, "-o", str(tmp_path / "run")]) == 0
    assert run(["retrain", str(tmp_path / "run"), "--remove", "1"]) == 2
    assert "nothing says how" in capsys.readouterr().err
    assert run(["retrain", str(tmp_path / "nothing")]) == 1
    assert "is not there" in capsys.readouterr().err
