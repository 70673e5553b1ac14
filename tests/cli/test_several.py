"""`fastif explain --nproc 2` says what one process says, and finds its own finished run again."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fastif.cli.app import run
from fastif.cli.several import _without, start_over
from fastif.errors import ConfigurationError

ROOT = Path(__file__).parents[2]


def started(line: list[str]) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    program = [sys.executable, "-m", "fastif", *line, "--nproc", "2"]
    return subprocess.Popen(program, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def in_two(line: list[str]) -> "subprocess.CompletedProcess[str]":
    process = started(line)
    out, err = process.communicate(timeout=300)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def test_two_processes_of_one_command(folder: Path, tmp_path: Path) -> None:
    given = ["--train", str(folder / "train.csv"), "--query", str(folder / "query.csv")]
    line = ["explain", str(folder / "model"), *given, "-o", str(tmp_path / "why")]
    ended = in_two(line)
    assert ended.returncode == 0, ended.stderr
    assert "2 processes on 1 machine" in ended.stderr
    assert "of states of the frozen layers" in ended.stderr
    assert "To send:" in ended.stderr
    assert ended.stderr.index("To send:") < ended.stderr.index("Written to")
    assert ended.stderr.count("Model:") == 1  # one process speaks
    seen, alone = (json.loads((each / "why" / "explanation.json").read_text()) for each in (tmp_path, folder))
    for mine, theirs in zip(seen["queries"], alone["queries"], strict=True):
        for side in ("helpful", "harmful"):
            assert [it["index"] for it in mine[side]] == [it["index"] for it in theirs[side]]
            scores = [[it["score"] for it in each[side]] for each in (mine, theirs)]
            assert scores[0] == pytest.approx(scores[1], rel=1e-4)
    again = in_two(line)
    assert again.returncode == 0, again.stderr
    assert "finished run of the same request" in again.stderr


@pytest.mark.slow
def test_two_runs_at_once_do_not_fight_over_a_port(folder: Path, tmp_path: Path) -> None:
    given = ["--train", str(folder / "train.csv"), "--query", str(folder / "query.csv")]
    runs = [started(["explain", str(folder / "model"), *given, "-o", str(tmp_path / name)]) for name in ("one", "two")]
    for process in runs:
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
    one, two = ((tmp_path / name / "explanation.json").read_text() for name in ("one", "two"))
    assert json.loads(one)["queries"] == json.loads(two)["queries"]


def test_an_error_of_several_is_told_once_and_without_a_traceback(tmp_path: Path) -> None:
    ended = in_two(["explain", str(tmp_path), "--train", "nowhere.csv", "--query-text", "dull"])
    assert ended.returncode != 0
    assert ended.stderr.count("Error:") == 1
    assert "has no config.json" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_nproc_is_taken_off_the_line() -> None:
    assert _without(["explain", "--nproc", "2", "m", "--nproc=3", "--top", "5"]) == ["explain", "m", "--top", "5"]


def test_more_processes_than_gpus_are_refused_before_they_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for given in ([], ["--device", "cuda"]):
        line = ["explain", "m", "--train", "t.csv", "--query-text", "dull", "--nproc", "4", *given]
        assert run(line) == 2
        assert "4 processes on this machine need as many GPUs, and it has 1." in capsys.readouterr().err
    for name, value in {
        "RANK": "1",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "x",
        "MASTER_PORT": "1",
    }.items():
        monkeypatch.setenv(name, value)
    assert run(["explain", "m", "--train", "t.csv", "--query-text", "dull"]) == 2  # as torchrun starts it
    assert "2 processes on this machine need as many GPUs, and it has 1." in capsys.readouterr().err


PROGRAM = """
import sys
from fastif.cli.app import run
sys.exit(run(["explain", *sys.argv[2:], "--query-text", "dull", "--nproc", "2", "--json"]))
"""


def test_a_line_from_python_is_the_one_that_is_started(folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    words = ["--of-the-host", str(folder / "model"), "--train", str(folder / "train.csv")]
    line = [sys.executable, "-c", PROGRAM, *words]
    ended = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    (query,) = json.loads(ended.stdout)["queries"]
    assert query["text"] == "dull"


def test_without_a_command_line_there_is_nothing_to_start() -> None:
    with pytest.raises(ConfigurationError, match=r"fastif\.cli\.app\.run"):
        start_over(2, "cpu")
