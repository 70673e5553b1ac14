"""Locks among processes: one after another, and never kept by a process that is gone."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from fastif import locks
from fastif.locks import in_line, made_once

HOLDER = """
import os, sys
from pathlib import Path
from fastif.locks import in_line
with in_line(Path(sys.argv[1])):
    print("in", flush=True)
    sys.stdin.readline()
    Path(sys.argv[2]).write_text("done")
    os._exit(9)
"""


def test_one_waits_for_another_process_and_is_not_held_up_when_that_is_killed(tmp_path: Path) -> None:
    lock, done = tmp_path / "models" / ".one.lock", tmp_path / "done"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(lock), str(done)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline() == "in\n"
    told: list[str] = []

    def waiting() -> None:
        told.append("waiting")
        assert not done.exists()
        holder.stdin.write("on\n")
        holder.stdin.flush()

    with in_line(lock, waiting):
        assert done.read_text() == "done"
    holder.communicate()
    assert told == ["waiting"]
    with in_line(lock, lambda: pytest.fail("nobody holds it")):
        pass


def test_one_makes_what_others_wait_for(tmp_path: Path) -> None:
    place, made, told = tmp_path / "model", [], []
    begun = threading.Event()

    def make(number: int) -> None:
        with made_once(place, place / "weights", lambda: told.append(number)) as missing:
            if missing:
                begun.set()
                time.sleep(3 * locks.BETWEEN_TRIES)  # so that the others try several times
                place.mkdir()
                (place / "weights").touch()
                made.append(number)

    threads = [threading.Thread(target=make, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert sorted(told + made) == [0, 1, 2]  # each of the others was told once
    with made_once(place, place / "weights", lambda: pytest.fail("it is there")) as missing:
        assert not missing


def test_what_one_failed_to_make_the_next_makes(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no"), made_once(tmp_path / "model", tmp_path / "model"):
        raise ValueError("no")
    with made_once(tmp_path / "model", tmp_path / "model") as missing:
        assert missing


def test_a_disk_that_knows_no_locks_is_an_error_and_no_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(locks, "take_lock", refuse)
    with pytest.raises(OSError, match="not supported"), in_line(tmp_path / "lock"):
        pass
