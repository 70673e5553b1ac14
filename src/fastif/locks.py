"""Locks that processes hold on files: the system lets go of them however a process ends.

Knows files that are open. Does not know what a lock keeps others out of.
"""

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

BETWEEN_TRIES = 0.2  # seconds
HELD = {errno.EAGAIN, errno.EACCES, errno.EDEADLK}  # by another process, and not refused by a disk that knows no locks


def take_lock(handle: int) -> None:
    """Lock an open file until it is closed; an OSError if another process holds it."""
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextlib.contextmanager
def in_line(path: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Within this context no other process is in it with the same file, which is made and stays; wait for who is.

    Args:
        path: of a file for the lock alone.
        waiting: called once if another is in it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab") as file:
        told = False
        while True:
            try:
                take_lock(file.fileno())
                break
            except OSError as error:
                if error.errno not in HELD:
                    raise
                if not told:
                    waiting()
                    told = True
                time.sleep(BETWEEN_TRIES)
        yield


@contextlib.contextmanager
def made_once(place: Path, proof: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[bool]:
    """Within this context, true if something is missing that is to be made now, while other processes wait for it.

    Args:
        place: where it will be; the lock stands beside it, as .NAME.lock, and stays.
        proof: what is there once it was made.
        waiting: called once if another process is at it.
    """
    if proof.exists():
        yield False
        return
    with in_line(place.with_name(f".{place.name}.lock"), waiting):
        yield not proof.exists()
