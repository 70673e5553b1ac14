"""One thread at a time works with models.

The levels of forward mode, the switches of kernels and precision, and a module that is called with other tensors are
one for all threads of a process: two explainers at once gave wrong scores. So the work of several threads is done one
after another. Knows threads, and nothing of models.
"""

import contextlib
import os
import threading
from collections.abc import Iterator
from contextvars import ContextVar


class _Turn:
    """Whose turn it is: a new object each time, which whoever works for its owner sees in its own context."""

    def __init__(self) -> None:
        self.lock, self.call = threading.Lock(), threading.RLock()
        self.now: object | None = None


_TURN = _Turn()
_MINE: ContextVar[object | None] = ContextVar("fastif_turn", default=None)


@contextlib.contextmanager
def in_turn() -> Iterator[None]:
    """Within this context no other thread works with models; who is within it already goes on.

    A thread that works for the one whose turn it is, as that one waits for it, has to run in a copy of its context
    (ahead.py): it would wait for ever otherwise.
    """
    mine, turn = _MINE.get(), _TURN
    if mine is not None and mine is turn.now:
        yield
        return
    with turn.lock:
        turn.now = object()
        token = _MINE.set(turn.now)
        try:
            yield
        finally:
            _MINE.reset(token)
            turn.now = None


@contextlib.contextmanager
def one_call() -> Iterator[None]:
    """Within this context no other thread calls a module, not even one that works in the same turn."""
    with in_turn(), _TURN.call:
        yield


def _begin_anew() -> None:
    """In a process that was forked no other thread is left to end its turn, or its call."""
    global _TURN
    before = _TURN
    if before.now is None or before.now is not _MINE.get():
        _TURN = _Turn()
    before.call = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
