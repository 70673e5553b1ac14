"""Ctrl-C: noted even where a library swallows it, and told with what becomes of the work.

Knows the command line and run directories; what a command does with its work is its own business.
"""

import contextlib
import itertools
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from fastif.__main__ import INTERRUPTED as INTERRUPTED
from fastif.cli import several
from fastif.cli.console import note
from fastif.store import is_begun


@contextlib.contextmanager
def noted_interrupts() -> Iterator[list[int]]:
    """Yield a list that has a member once Ctrl-C was pressed, also where a library swallows the exception of it."""
    noted: list[int] = []

    def take(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        signal.default_int_handler(number, frame)

    usual = threading.current_thread() is threading.main_thread()  # no other may say what a signal does
    usual = usual and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if usual:
        signal.signal(signal.SIGINT, take)
    try:
        yield noted
    finally:
        if usual:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def tell_interrupted(line: list[str]) -> None:
    """Say what becomes of the work: only of a run that was begun is anything kept."""
    kept = next((place for place in _places(line) if is_begun(place)), None)
    words = (
        "" if kept is None else f" What is finished is kept in {kept}: give the same line once more, and it goes on."
    )
    if not several.is_told("Interrupted."):
        note(f"\nInterrupted.{words}")


def _places(line: list[str]) -> Iterator[Path]:
    """Yield what a command line names as its output."""
    for word, following in itertools.pairwise([*line, ""]):
        if word in ("-o", "--out"):
            yield Path(following)
        elif word.startswith("--out="):
            yield Path(word.removeprefix("--out="))
        elif word.startswith("-o"):
            yield Path(word.removeprefix("-o"))
