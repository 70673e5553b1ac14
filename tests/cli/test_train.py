"""`fastif train` as a user runs it: what it writes, what it says, and how it fails."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import fastif
from fastif.cli.app import run
from fastif.integrations.huggingface import TextClassifier
from fastif.integrations.huggingface.fitting import Fitting
from tests.integrations.huggingface.tiny_base import save_base, sentences, write_csv


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("train")
    save_base(path / "base")
    write_csv(path / "train.csv", sentences(120))
    write_csv(path / "dev.csv", sentences(40, seed=1))
    write_csv(path / "odd.csv", [{"text": "dull", "label": "mixed"}])
    write_csv(path / "one.csv", [{"text": "dull", "label": "bad"}, {"text": "fine", "label": "bad"}])
    return path


def line(folder: Path, out: Path, **changes: str) -> list[str]:
    given = {
        "--train": str(folder / "train.csv"),
        "-o": str(out),
        "--epochs": "2",
        "--learning-rate": "1e-2",
        **changes,
    }
    return ["train", given.pop("base", str(folder / "base")), *(word for pair in given.items() for word in pair)]


def test_trains_writes_and_tells(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "runs" / "model"
    assert run(line(folder, out, **{"--dev": str(folder / "dev.csv"), "--batch-size": "16"})) == 0
    seen = capsys.readouterr()
    assert "Base: " in seen.err
    assert "single-label: bleak, bright." in seen.err
    assert "layers 2 to 3 of 3 and the head. Computed once: the embeddings and 1 frozen layer." in seen.err
    assert "Epoch 2: loss" in seen.err
    assert "on 40 texts of dev." in seen.out
    assert "bleak" in seen.out
    names = {file.name for file in out.iterdir()}
    assert {"model.safetensors", "config.json", "tokenizer.json", "fastif_training.json"} <= names
    assert [path.name for path in out.parent.iterdir()] == ["model"]
    assert "layers 2 to 3" in TextClassifier.from_pretrained(out).choice
    assert run(["explain", str(out), "--train", str(folder / "train.csv"), "--query-text", "dull", "--json"]) == 0
    assert "as fastif_training.json says" in json.loads(capsys.readouterr().out)["influence_through"]


def test_json_and_rows_kept_aside(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*line(folder, tmp_path / "out", **{"--limit": "100", "--dev-share": "0.2"}), "--json"]) == 0
    seen = capsys.readouterr()
    told = json.loads(seen.out)
    assert told == {"out": str(tmp_path / "out"), **json.loads((tmp_path / "out/fastif_training.json").read_text())}
    assert (told["train"]["rows"], told["dev"]["rows"]) == (80, 20)
    assert not set(told["train"]["lines"]) & set(told["dev"]["lines"])
    assert "Dev: 20 rows of train kept aside; 80 are trained on." in seen.err


@pytest.mark.parametrize(
    ("change", "words", "status"),
    [
        ({"--train": "missing.csv"}, "there is no such file", 1),
        ({"--train": "{folder}/one.csv"}, "only the label 'bad'", 1),
        ({"base": "nothing/here/at/all"}, "there is no checkpoint at", 1),
        ({"-o": "{folder}"}, "nothing is overwritten", 1),
        ({"--freeze-layers": "1", "--trainable": "all"}, "give one of them", 2),
        ({"--freeze-layers": "9"}, "freeze_layers must be 0 to 3", 2),
        ({"--trainable": "nothing_like_it"}, "no parameter is chosen by", 1),
        ({"--dev": "{folder}/odd.csv"}, "the label 'mixed' is not one of the model's", 1),
        ({"--learning-rate": "fast"}, "must be a number such as 5e-5", 2),
        ({"--learning-rate": "1e30"}, "Lower the learning rate", 1),
        ({"--learning-rate": "1e300"}, "Lower the learning rate", 1),
        ({"--seed": str(2**64)}, "--seed", 2),
        ({"--dev-share": "1.5"}, "dev_share must be", 2),
        ({"--epochs": "0"}, "--epochs", 2),
        ({"--label": "sentiment"}, "has no column 'sentiment'", 1),
    ],
)
def test_failures_are_one_message_and_write_nothing(
    change: dict[str, str], words: str, status: int, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = {name: value.format(folder=folder) for name, value in change.items()}
    assert run(line(folder, tmp_path / "out", **changes)) == status
    seen = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert words in seen
    assert "Traceback" not in seen
    assert not list(tmp_path.iterdir())


def test_a_disk_without_room_is_told_before_the_training(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda place: SimpleNamespace(free=1000))
    monkeypatch.setattr(Fitting, "_step", None)
    assert run(line(folder, tmp_path / "runs" / "out")) == 1
    seen = capsys.readouterr().err
    assert f"Error: the disk of {tmp_path} has 0.0 MB free" in seen
    assert "the training would be lost at its end" in seen
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.name != "posix", reason="limits of a process are of posix")
def test_a_disk_that_is_full_at_the_end_is_an_error_in_words(folder: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "fastif", *line(folder, tmp_path / "out")]
    places = {**os.environ, "PYTHONPATH": str(Path(fastif.__file__).parents[1])}
    limited = ["bash", "-c", 'ulimit -f 16; exec "$@"', "bash", *words]  # no file of more than 16 KiB
    done = subprocess.run(limited, env=places, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Unexpected" not in done.stderr
    assert f"Error: the checkpoint could not be written to {tmp_path / 'out'}" in done.stderr
    assert not list(tmp_path.iterdir())


def test_an_interruption_says_what_is_lost(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Fitting, "_step", stop)
    assert run(line(folder, tmp_path / "out")) == 130
    assert f"this training is lost, and nothing was written to {tmp_path / 'out'}" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
