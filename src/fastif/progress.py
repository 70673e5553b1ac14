"""How long work tells how far it is.

Knows: a stage by name, how much of it is done (in examples, iterations or whatever the stage counts), a stream and a
clock. Does not know: what the work is, torch, or any drawing library. Work that can take long accepts a `Progress` and
calls it; a caller that wants a richer picture (the command line, a web page, a log) passes a callable of its own.
"""

import shutil
import sys
import time
from collections.abc import Callable
from typing import Protocol, TextIO

from fastif.errors import ConfigurationError


class Progress(Protocol):
    """Called as `progress(stage, done, total)`, with `done` of `total` finished, counted in what the stage counts.

    Report `done=0` before the work of a stage begins, so that its clock starts there, and `done == total` at its end.
    """

    def __call__(self, stage: str, done: int, total: int, /) -> None:
        """Hear that `done` of `total` of `stage` is finished."""


def silent(stage: str, done: int, total: int) -> None:
    """The progress that says nothing.

    >>> silent("scoring", 1, 10)
    """


def offset(progress: Progress, before: int, total: int) -> Progress:
    """Return the progress of a part of some work, `before` of whose `total` was done before that part.

    >>> offset(print, 10, 30)("scoring", 5, 10)
    scoring 15 30
    """
    return lambda stage, done, _: progress(stage, before + done, total)


class StderrProgress:
    r"""One line, rewritten in place: stage, percent, rate, time left.

    With `first` done at the first report of a stage and `s` seconds gone since, the rate is `(done - first) / s` per
    second (so that a resumed run does not look fast) and the time left `(total - done) / rate`. It names no unit, as
    some stages count examples and others iterations.

    A stage that ends within `delay` seconds never appears. On a stream that is no terminal nothing is written, unless
    `force` says so. A stream that breaks (a closed pipe) ends the display and never the work.

    >>> import io
    >>> seconds = iter([0.0, 2.0, 4.0])
    >>> stream = io.StringIO()
    >>> progress = StderrProgress(stream, clock=lambda: next(seconds), force=True)
    >>> for done in (0, 50, 100):
    ...     progress("scoring", done, 100)
    >>> for line in stream.getvalue().strip().split("\r"):
    ...     print(line.rstrip())
    scoring:  50% (50/100), 25/s, 0:02 left
    scoring: 100% (100/100), 25/s, took 0:04
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        force: bool = False,
        delay: float = 1.0,
        interval: float = 0.1,
    ) -> None:
        # sys.stderr is None in a program without a console.
        self._stream: TextIO | None = sys.stderr if stream is None else stream
        if not force and not _is_terminal(self._stream):
            self._stream = None
        self._clock = clock
        self._delay = delay
        self._interval = interval
        self._stage: str | None = None
        self._started = self._drawn = 0.0
        self._first = self._done = 0
        self._width = 0  # characters of the line that is on display now; 0 = none

    def __call__(self, stage: str, done: int, total: int, /) -> None:
        """Draw the line, if it is time to."""
        if self._stream is None:
            return
        now = self._clock()
        if stage != self._stage or done < self._done:
            self.close()
            self._stage, self._started, self._first = stage, now, done
        self._done = done
        ended = done >= total
        if now - self._started > self._delay and (ended or not self._width or now - self._drawn >= self._interval):
            self._draw(_line(stage, done, total, done - self._first, now - self._started))
            self._drawn = now
        if ended:
            self.close()

    def close(self) -> None:
        """End the line on display, if there is one, and forget the stage."""
        if self._width:
            self._write("\n")
        self._stage, self._done, self._width = None, 0, 0

    def _draw(self, line: str) -> None:
        # A line as wide as the terminal wraps, and a wrapped line cannot be rewritten with a carriage return.
        line = line[: max(shutil.get_terminal_size().columns - 1, 1)]
        self._write("\r" + line.ljust(self._width))
        self._width = len(line)

    def _write(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # ValueError: the stream was closed
            self._stream = None


def resolve(progress: bool | Progress | None) -> Progress:
    """The progress that an argument asks for: None = on if stderr is a terminal, True = on, False = off.

    >>> resolve(False) is silent
    True
    >>> resolve(print)("solving", 1, 2)
    solving 1 2
    """
    if progress is None:
        return StderrProgress() if _is_terminal(sys.stderr) else silent
    if progress is True:
        return StderrProgress(force=True)
    if progress is False:
        return silent
    if callable(progress):
        return progress
    raise ConfigurationError(
        f"progress is {progress!r}, which cannot be called. Give True, False, None (on a terminal only) or a callable "
        "that takes (stage, done, total)."
    )


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def _line(stage: str, done: int, total: int, fresh: int, seconds: float) -> str:
    percent = 100 if done >= total else 100 * done // total  # rounded down: 100 % means done
    parts = [f"{stage}: {percent:3d}% ({done}/{total})"]
    rate = fresh / seconds if seconds > 0 else 0.0
    if rate > 0:
        parts.append(f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2g}/s")
    if done >= total:
        parts.append(f"took {_duration(seconds)}")
    elif rate > 0:
        parts.append(f"{_duration((total - done) / rate)} left")
    return ", ".join(parts)


def _duration(seconds: float) -> str:
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"
