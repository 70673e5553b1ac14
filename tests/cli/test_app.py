"""What a person is told when a command fails: for want of memory or of room, by Ctrl-C, with brackets in the words."""

import errno
import io
import json
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from fastif.cli import app
from fastif.cli.console import OUT, print_json
from fastif.cli.material import warn
from fastif.errors import DataError, FastifWarning
from fastif.store import RunStore
from tests.cli.stored import store_run

PROGRAM = [sys.executable, "-m", "fastif"]


def test_a_full_gpu_is_told_in_words(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 MiB. GPU 0 has [much] more to say")

    monkeypatch.setattr(app, "app", full)
    assert app.run(["doctor"]) == 1
    said = capsys.readouterr().err
    assert "the GPU has no memory left (CUDA out of memory)" in said
    assert "--memory-budget" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), SafetensorError("No space left on device")])
def test_a_full_disk_is_told_in_words(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(app, "app", full)
    assert app.run(["train"]) == 1
    assert capsys.readouterr().err == (
        f"Error: a file could not be written: {error}. Make room, or choose another place for it.\n"
    )


@pytest.mark.parametrize("words", [r"a\[/b].csv", "[bold]a", "[/]", ":smile: \\"])
def test_words_are_shown_as_they_are(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        warn(words)
        warnings.showwarning(FastifWarning(words), FastifWarning, "", 0)
        raise DataError(words)

    monkeypatch.setattr(app, "app", refuse)
    assert app.run(["doctor"]) == 1
    assert capsys.readouterr().err == f"Warning: {words}\nWarning: {words}\nError: {words}\n"


def test_an_interrupted_run_says_how_it_goes_on(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    piece = RunStore.piece

    def interrupted(*given: object) -> object:
        piece(*given)  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("no interrupt came")

    monkeypatch.setattr(RunStore, "piece", interrupted)
    line = ["explain", str(folder / "model"), "--train", str(folder / "train.csv"), "--query-text", "dull"]
    capsys.readouterr()
    assert app.run([*line, "-o", str(tmp_path / "run")]) == 130
    assert capsys.readouterr().err.endswith(
        f"\nInterrupted. What is finished is kept in {tmp_path / 'run'}: give the same line once more, and it goes "
        "on.\n"
    )
    monkeypatch.undo()
    assert app.run([*line, "-o", str(tmp_path / "run")]) == 0


@pytest.mark.parametrize("error", [ModuleNotFoundError("No module named 'x'"), DataError("odd"), KeyboardInterrupt()])
def test_an_interrupt_that_a_library_swallows_is_one(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def swallow(*_: object, **__: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            raise error from None

    monkeypatch.setattr(app, "app", swallow)
    assert app.run(["doctor", "-o", "nothing"]) == 130
    assert capsys.readouterr().err == "\nInterrupted.\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full disk")
@pytest.mark.parametrize(("written", "unbuffered"), [([], "1"), (["--json"], "")])
def test_a_result_that_finds_no_room_is_one_error(written: list[str], unbuffered: str, tmp_path: Path) -> None:
    line = [*PROGRAM, "slices", str(store_run(tmp_path / "run", ["one", "two"], counts={})), *written]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "w") as full:
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, env=environment, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "Error: the result could not be written to standard output: No space left on device. Make room where it goes, "
        "or send it elsewhere, and give the command once more.\n"
    )


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8"])
def test_letters_that_an_encoding_lacks_lose_nothing(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(line: list[str], **_: object) -> None:
        if "--json" in line:
            print_json({"text": "café 😀"})
        else:
            OUT.print("café 😀")

    class Held(io.BytesIO):
        def close(self) -> None:
            pass

    monkeypatch.setattr(app, "app", write)
    for line in (["doctor"], ["doctor", "--json"]):
        held = Held()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(held, encoding=encoding))
        assert app.run(line) == 0
        said = held.getvalue().decode(encoding)
        if line[1:]:
            assert json.loads(said) == {"text": "café 😀"}
        else:
            assert said == ("café 😀\n" if encoding == "utf-8" else "café \\U0001f600\n")


def test_a_choice_that_there_is_not_is_told_in_our_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["explain", "model", "--train", "x.csv", "--solver", "foo"]) == 2
    seen = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert "Invalid value for '--solver': 'foo' is not one of 'auto', 'exact'" in seen


@pytest.mark.parametrize("command", ["explain", "audit", "doctor"])
def test_a_run_in_place_of_a_model_is_told_apart(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = store_run(tmp_path / "why", ["a"])
    more = ["--query-text", "a"] if command == "explain" else []
    assert app.run([command, str(place), "--train", "x.csv", *more]) == 1
    seen = " ".join(capsys.readouterr().err.split())
    assert "is a run of fastif explain, and no model: its model is model. Give that." in seen


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, which --device cuda takes")
def test_a_gpu_that_there_is_not_is_told_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["audit", "model", "--train", "x.csv", "--device", "cuda"]) == 2
    seen = " ".join(capsys.readouterr().err.split())
    assert "--device cuda cannot be used" in seen
    assert "Leave --device out, which takes what there is" in seen


@pytest.mark.parametrize("damping", ["inf", "nan", "-1", "much"])
@pytest.mark.parametrize("command", [["correct", "run", "--anchors", "a.csv", "--test", "b.csv"], ["audit", "model"]])
def test_a_damping_that_is_no_number_is_wrong_usage_also_where_nothing_uses_it(
    command: list[str], damping: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.run([*command, *(["--train", "x.csv"] if command[0] == "audit" else []), "--damping", damping]) == 2
    assert "Invalid value for '--damping'" in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_a_device_that_is_not_there_is_told_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["explain", "model", "--train", "x.csv", "--query-text", "x", "--device", "xla"]) == 2
    said = capsys.readouterr().err
    assert "--device xla cannot be used: " in said
    assert len(said) < 300
