"""A run directory: what was done is found again, what is damaged is named, and no two processes write to one."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from fastif.errors import ConfigurationError, DataError, StoredFileError
from fastif.files import replacing
from fastif.store import RunStore

REQUEST = {"model": "m", "seed": 3}


def test_pieces_are_made_once_and_found_again(tmp_path: Path) -> None:
    made = []

    def make() -> dict[str, torch.Tensor]:
        made.append(1)
        return {"x": torch.arange(3.0)}

    for _ in range(2):
        with RunStore.begin(tmp_path / "run", REQUEST) as store:
            assert not store.is_complete
            torch.testing.assert_close(store.piece("first", make)["x"], torch.arange(3.0))
    assert len(made) == 1
    with RunStore.begin(tmp_path / "run", REQUEST) as store:
        store.piece("second", make)
    assert len(made) == 2


def test_a_damaged_piece_is_made_again(tmp_path: Path) -> None:
    with RunStore.begin(tmp_path, REQUEST) as store:
        store.piece("first", lambda: {"x": torch.zeros(100)})
        (file,) = (tmp_path / "parts").iterdir()
        content = bytearray(file.read_bytes())
        content[-5] ^= 1  # in the numbers, where safetensors itself sees nothing wrong
        file.write_bytes(content)
        assert store.piece("first", lambda: {"x": torch.ones(100)})["x"].sum() == 100
        file.write_bytes(file.read_bytes()[:-40])
        assert store.piece("first", lambda: {"x": torch.full((100,), 2.0)})["x"].sum() == 200


def test_a_finished_run_is_read_with_every_file_checked(tmp_path: Path) -> None:
    with RunStore.begin(tmp_path, REQUEST) as store:
        store.piece("first", lambda: {"x": torch.zeros(2)})
        store.add_json("told.json", {"text": "café"})
        store.add_tensors("scores.safetensors", {"values": torch.eye(2)})
        store.finish()
    assert not (tmp_path / "parts").exists()
    run = RunStore.read(tmp_path)
    assert run.request == REQUEST
    assert run.json("told.json") == {"text": "café"}
    torch.testing.assert_close(run.tensors("scores.safetensors")["values"], torch.eye(2))
    with pytest.raises(StoredFileError, match=r"has no other\.json; it has scores\.safetensors, told\.json"):
        run.json("other.json")
    (tmp_path / "told.json").write_text("{}")
    with pytest.raises(StoredFileError, match=r"told\.json is damaged"):
        RunStore.read(tmp_path).json("told.json")
    (tmp_path / "told.json").unlink()
    with pytest.raises(StoredFileError, match=r"told\.json cannot be read"):
        RunStore.read(tmp_path).json("told.json")


def test_what_is_not_a_run_or_not_this_one_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(StoredFileError, match="is not there"):
        RunStore.read(tmp_path / "missing")
    with pytest.raises(StoredFileError, match="is not a run"):
        RunStore.read(tmp_path)
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(StoredFileError, match=r"holds letter\.txt and is no run"), RunStore.begin(tmp_path, REQUEST):
        pass
    assert (tmp_path / "letter.txt").read_text() == "mine"
    with RunStore.begin(tmp_path / "run", REQUEST) as store:
        store.piece("one", lambda: {"x": torch.ones(1)})
    with pytest.raises(StoredFileError, match="not finished"):
        RunStore.read(tmp_path / "run")
    with (
        pytest.raises(StoredFileError, match=r"another request: seed was 3 and is 4\."),
        RunStore.begin(tmp_path / "run", {**REQUEST, "seed": 4}),
    ):
        pass
    with pytest.raises(ConfigurationError, match="JSON"), RunStore.begin(tmp_path / "x", {"a": float("nan")}):
        pass


def test_what_differs_between_two_requests_is_said(tmp_path: Path) -> None:
    read = {"train": "a" * 64, "model": "b" * 64}
    before = {"command": "explain", "arguments": {"limit": 4, "text": None, "top": 3}, "read": read}
    now = {"command": "explain", "arguments": {"limit": 5, "text": "it" * 99}, "read": {**read, "train": "c" * 64}}
    with RunStore.begin(tmp_path / "run", before) as store:
        store.finish()
    with pytest.raises(StoredFileError) as refused, RunStore.begin(tmp_path / "run", now):
        pass
    said = str(refused.value)
    assert 'another request: limit was 4 and is 5; text was null and is "ititit' in said
    assert "…; top was 3 and is null; train has another content. Choose" in said
    other = {**before, "read": {}, "data": {}, **dict.fromkeys("uvw", 1)}
    with pytest.raises(StoredFileError, match=r"; and 1 more\."), RunStore.begin(tmp_path / "run", other):
        pass


@pytest.mark.parametrize("kept", ["a piece", "a file", "nothing"])
def test_a_start_that_left_nothing_does_not_hold_the_directory(kept: str, tmp_path: Path) -> None:
    with contextlib.suppress(DataError), RunStore.begin(tmp_path / "run", REQUEST) as store:
        if kept == "a piece":
            store.piece("one", lambda: {"x": torch.ones(1)})
        elif kept == "a file":
            store.add_json("result.json", {})
        raise DataError("the data cannot be read")
    other = {**REQUEST, "seed": 4}
    refused = contextlib.nullcontext() if kept == "nothing" else pytest.raises(StoredFileError, match="another request")
    with refused, RunStore.begin(tmp_path / "run", other) as store:
        assert store.request == other
        store.finish()
    if kept == "nothing":
        assert RunStore.read(tmp_path / "run").request == other


@pytest.mark.parametrize("content", ["", "[]", "{", '{"format": "other"}', "[" * 100_000])
def test_a_description_that_cannot_be_read(content: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(StoredFileError, match=r"run\.json"):
        RunStore.read(tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"state": None}, "its state is None, and neither running nor complete"),
        ({"state": ["complete"]}, "its state is"),
        ({"files": None}, "'files' is not there, or no object"),
        ({"files": {"scores.json": 3}}, "'files' has something that is no hash"),
        ({"request": [1]}, "'request' is not there, or no object"),
        ({"request": {"command": "explain", "read": {}}}, "'arguments' of its request is not there, or no object"),
        ({"request": {"arguments": 3, "read": {}}}, "'arguments' of its request is not there, or no object"),
        ({"request": {"arguments": {}, "read": "x"}}, "'read' of its request is not there, or no object"),
    ],
)
def test_a_description_that_lacks_something(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    with RunStore.begin(tmp_path, REQUEST) as store:
        store.finish()
    file = tmp_path / "run.json"
    changed = {**json.loads(file.read_text()), **change}
    file.write_text(json.dumps({name: value for name, value in changed.items() if value is not None}))
    for opened in (RunStore.read, RunStore.joined):
        with pytest.raises(StoredFileError, match=r"run\.json is damaged: " + words):
            opened(tmp_path)


def test_a_run_of_a_newer_version(tmp_path: Path) -> None:
    with RunStore.begin(tmp_path, REQUEST):
        pass
    file = tmp_path / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format_version": 99, "fastif": "9.0"}))
    with pytest.raises(StoredFileError, match=r"written by fastif 9\.0 in format 99"):
        RunStore.read(tmp_path)


HOLDER = textwrap.dedent("""
    import sys, time
    from fastif.store import RunStore
    with RunStore.begin(sys.argv[1], {"model": "m", "seed": 3}):
        print("open", flush=True)
        time.sleep(60)
""")


def test_two_writers_exclude_each_other_and_a_killed_one_lets_go(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with (
            pytest.raises(StoredFileError, match=f"open in another process \\(number {other.pid}\\)"),
            RunStore.begin(tmp_path, REQUEST),
        ):
            pass
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
    with RunStore.begin(tmp_path, REQUEST) as store:
        store.finish()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KiB."""
    small = tmp_path / "small"
    small.mkdir()
    if not shutil.which("mount") or os.name != "posix" or os.getuid() != 0:
        pytest.skip("needs a small disk")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", small], check=False).returncode:
        pytest.skip("no small disk can be made here")
    try:
        yield small
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_full_disk_is_told_and_nothing_is_half_written(small: Path) -> None:
    with RunStore.begin(small / "run", REQUEST) as store:
        store.piece("little", lambda: {"x": torch.zeros(10)})
        with pytest.raises(StoredFileError, match="Make room and give the command once more"):
            store.piece("much", lambda: {"x": torch.zeros(10**6)})
        assert len(list((small / "run" / "parts").iterdir())) == 1


def test_a_disk_that_is_full_at_the_start_is_told_too(small: Path) -> None:
    with contextlib.suppress(OSError):
        (small / "fill").write_bytes(bytes(1 << 20))
    for _ in range(2):
        with (
            pytest.raises(StoredFileError, match="Make room and give the command once more"),
            RunStore.begin(small / "run", REQUEST),
        ):
            pass
    (small / "fill").unlink()
    with RunStore.begin(small / "run", REQUEST) as store:
        store.finish()


KILLED = textwrap.dedent("""
    import os, sys
    from pathlib import Path
    from fastif.files import making_directory, replacing
    from fastif.store import RunStore
    path = Path(sys.argv[1])
    with (
        RunStore.begin(path, {"command": "x"}) as store,
        replacing(path / "scores.safetensors"),
        making_directory(path / "model") as model,
        making_directory(path / "parts" / "other"),
        replacing(path / "parts" / "states.npy"),
    ):
        (model / "weights").mkdir()
        (model / "weights" / "part.bin").write_bytes(b"half")
        os._exit(9)
""")


def test_what_a_killed_writer_left_half_written_is_removed(tmp_path: Path) -> None:
    place = tmp_path / "run"
    assert subprocess.run([sys.executable, "-c", KILLED, str(place)], check=False).returncode == 9
    left = list(place.rglob("*.tmp"))
    assert len(left) == 4
    mine = [place / ".mine.tmp", place / "parts" / "states.npy", place / "notes" / left[0].name]
    for file in mine:
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"whole")
    with RunStore.begin(place, {"command": "x"}):
        assert not any(each.exists() for each in left)
        assert all(each.exists() for each in mine)


def test_what_another_writes_at_this_moment_is_left_alone(tmp_path: Path) -> None:
    with RunStore.begin(tmp_path, REQUEST):
        (tmp_path / "parts").mkdir()
        with replacing(tmp_path / "parts" / "states.npy") as temporary:
            with pytest.raises(StoredFileError, match="open in another process"), RunStore.begin(tmp_path, REQUEST):
                pass
            assert temporary.exists()
