"""What a command reads, and what a run rests on, is not replaced, also not with --force."""

import os
from pathlib import Path

import pytest

from fastif.cli.app import run
from fastif.cli.places import check_replaceable
from fastif.errors import StoredFileError
from tests.cli.stored import store_run
from tests.web.runs import write_run


def test_what_is_there_is_replaced_only_with_force(tmp_path: Path) -> None:
    file = tmp_path / "file.csv"
    check_replaceable(file, force=False, inputs=[file])
    file.write_text("mine")
    with pytest.raises(StoredFileError, match="replace it with --force"):
        check_replaceable(file, force=False, inputs=["owner/name:split", None, tmp_path / "nothing.csv", "\0"])
    check_replaceable(file, force=True)


def test_an_input_is_known_by_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file.csv").write_text("mine")
    Path("link.csv").symlink_to("file.csv")
    os.link("file.csv", "other.csv")
    (tmp_path / "folder").mkdir()
    for name in ("file.csv", "folder/../file.csv", "link.csv", "other.csv", str(tmp_path / "file.csv")):
        with pytest.raises(StoredFileError, match="is what this command reads"):
            check_replaceable(Path("file.csv"), force=True, inputs=["nobody/this", name])
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(StoredFileError, match="is what this command reads"):
        check_replaceable(Path("file.csv"), force=True, inputs=["~/file.csv"])


def test_files_of_a_run_stay_and_others_in_it_do_not_matter(tmp_path: Path) -> None:
    path = store_run(tmp_path / "run", [None])
    for name in ("train.jsonl", "run.json", "scores.safetensors"):
        with pytest.raises(StoredFileError, match="belongs to the run"):
            check_replaceable(path / name, force=True)
    (path / "mine.csv").write_text("mine")
    check_replaceable(path / "mine.csv", force=True)
    (tmp_path / "run.json").write_text("[" * 100_000)  # of somebody else, and no run
    check_replaceable(path / "mine.csv", force=True)


def _is_left(line: list[str], file: Path, capsys: pytest.CaptureFixture[str], words: str) -> None:
    before = file.read_bytes()
    assert run(line) == 1
    assert words in " ".join(capsys.readouterr().err.split())
    assert file.read_bytes() == before


def test_audit_does_not_replace_the_training_data(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = tmp_path / "train.csv"
    train.write_bytes((folder / "train.csv").read_bytes())
    line = ["audit", str(folder / "model"), "--train", str(train), "-o", str(train), "--force"]
    _is_left(line, train, capsys, "is what this command reads")


@pytest.mark.parametrize("role", ["pool", "anchors", "original", "test"])
def test_augment_does_not_replace_what_it_reads(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], role: str
) -> None:
    files = {name: tmp_path / f"{name}.csv" for name in ("pool", "anchors", "original", "test")}
    for file in files.values():
        file.write_bytes((folder / "query.csv").read_bytes())
    given = [word for name, file in files.items() for word in (f"--{name}", str(file))]
    line = ["augment", str(folder / "why"), *given, "--export", str(files[role]), "--force"]
    _is_left(line, files[role], capsys, "is what this command reads")


def test_augment_does_not_replace_the_training_data_of_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = tmp_path / "train.csv"
    train.write_text("text,label\na,b\n")
    path = store_run(tmp_path / "run", [None], arguments={"train": str(train)})
    line = ["augment", str(path), "--pool", "p.csv", "--anchors", "a.csv", "--export", str(train), "--force"]
    _is_left(line, train, capsys, "is what this command reads")


def test_apply_replaces_neither_the_marks_nor_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_run(tmp_path / "run")
    marks = tmp_path / "marks.jsonl"
    marks.write_text('{"index": 5, "action": "remove"}\n')
    _is_left(["apply", str(path), str(marks), "-o", str(marks), "--force"], marks, capsys, "what this command reads")
    kept = path / "train.jsonl"
    _is_left(["apply", str(path), str(marks), "-o", str(kept), "--force"], kept, capsys, "belongs to the run")
