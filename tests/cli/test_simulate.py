"""`fastif simulate` as a user runs it: what it writes, what it says, and how it fails."""

import json
from pathlib import Path

import pytest

from fastif.cli.app import run


def test_writes_tells_and_draws(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "simulated"
    line = ["simulate", str(folder / "why"), "--points", "3", "--rates", "4", "-o", str(out)]
    assert run(line) == 0
    seen = capsys.readouterr()
    assert "The simulator says what the model says of" in seen.out
    assert "random, bleak" in seen.out
    assert "The paper expects harmful examples to lower it most there" in seen.out
    assert {file.name for file in out.iterdir()} - {".lock"} == {
        "run.json",
        "result.json",
        "result.safetensors",
        "simulatability.png",
    }
    result = json.loads((out / "result.json").read_text())
    assert result["kinds"] == ["helpful", "harmful", "random, bleak", "random, bright"]
    assert len(result["rates"]) == 4
    assert len(result["queries"][0]["changes"]["helpful"]["mean"]) == 4
    assert run([*line, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == result
    other = ["simulate", str(folder / "why"), "--points", "3", "--rates", "4", "--labels", "predicted", "--json"]
    assert run(other) == 0
    predicted = json.loads(capsys.readouterr().out)
    assert predicted["labels"] == "predicted"
    assert predicted["queries"][0]["changes"] != result["queries"][0]["changes"]


@pytest.mark.parametrize(
    ("change", "words", "status"),
    [
        (["--points", "58"], "Take fewer points", 1),
        (["--lowest", "1", "--highest", "0.1"], "learning rates go from one number up to another", 2),
        (["--labels", "made-up"], "made-up", 2),
    ],
)
def test_failures_are_one_message(
    change: list[str], words: str, status: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", str(folder / "why"), "--rates", "3", *change]) == status
    seen = capsys.readouterr().err
    assert words in " ".join(seen.split())
    assert "Traceback" not in seen


def test_queries_without_labels_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", str(folder / "unlabelled")]) == 1
    assert "the queries have no labels" in capsys.readouterr().err
