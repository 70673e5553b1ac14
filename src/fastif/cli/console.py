"""Where the command line writes: results to stdout, everything else to stderr; and the bar that shows progress."""

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterator
from types import TracebackType
from typing import Any, TextIO, cast

from rich.console import Console, ConsoleDimensions
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from fastif.errors import StoredFileError

LEAST_WIDTH = 60  # at which a table still has all its numbers and some of its texts


class _Console(Console):
    """A console that is never too narrow for a table: COLUMNS=0 would have it draw nothing at all."""

    @property  # type: ignore[misc]  # nobody sets it
    def size(self) -> ConsoleDimensions:
        """How many letters fit, as far as tables are made for it."""
        width, height = super().size
        return ConsoleDimensions(max(width, LEAST_WIDTH), height)

    @property  # type: ignore[misc]
    def width(self) -> int:
        """The same, of a line."""
        return self.size.width


OUT = _Console(highlight=False, soft_wrap=True)
ERR = _Console(stderr=True, highlight=False, soft_wrap=True)
_quiet = False


class _Rate(ProgressColumn):
    """How many a second."""

    def render(self, task: Task) -> Text:
        """Draw it."""
        speed = task.finished_speed or task.speed
        return Text("" if not speed else f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.2g}/s")


class Bars:
    """A bar for each stage on stderr, with rate and time left: the `Progress` of the command line.

    On a stream that is no terminal nothing is drawn, so that logs stay readable.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._bars = self._new()
        self._tasks: dict[str, TaskID] = {}

    def _new(self) -> Progress:
        return Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f}"),
            _Rate(),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            console=ERR,
            transient=False,
            disable=self._quiet or not ERR.is_terminal,
        )

    def __enter__(self) -> "Bars":
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """End the bars on display while something else is written; what comes after gets new ones.

        While bars are drawn, rich takes over stdout too, and a result would go where the bars go.
        """
        self._bars.stop()
        try:
            yield
        finally:
            self._bars, self._tasks = self._new(), {}
            self._bars.start()

    def __call__(self, stage: str, done: int, total: int, /) -> None:
        """Hear that `done` of `total` of a stage is finished."""
        task = self._tasks.get(stage)
        if _quiet:
            return
        if task is None or (done == 0 and self._bars.tasks[self._bars.task_ids.index(task)].finished):
            task = self._tasks[stage] = self._bars.add_task(stage, total=total)
        self._bars.update(task, completed=done, total=total)


def be_quiet() -> None:
    """Say nothing more but errors: another process of the same command says it all."""
    global _quiet
    _quiet = True


def note(words: str) -> None:
    """Tell a person something on stderr, where it is in nobody's way."""
    if not _quiet:
        ERR.print(Text(words))


def tell(kind: str, words: str, *, style: str) -> None:
    """Tell an error or a warning on stderr: its kind in colour, the words as they are, whatever brackets they hold."""
    ERR.print(Text.assemble((kind, style), " ", words))


def print_json(content: Any) -> None:
    """Write a result for a program: JSON on stdout, one line at its end."""
    # in another encoding some letters would be lost, or written in a way that JSON does not know
    plain = not (sys.stdout.encoding or "").lower().startswith("utf")
    sys.stdout.write(json.dumps(content, indent=2, ensure_ascii=plain, allow_nan=False) + "\n")
    sys.stdout.flush()  # what is said next is that it is there


@contextlib.contextmanager
def writing_all() -> Iterator[None]:
    """Have stdout lose nothing in silence: what it cannot write is an error in words, and odd letters are numbers."""
    real = sys.stdout
    if isinstance(real, io.TextIOWrapper):
        real.reconfigure(errors="backslashreplace")  # or one letter that its encoding lacks would lose the whole result
    with contextlib.redirect_stdout(cast("TextIO", _Stdout(real))):
        yield


def throw_output_away() -> None:
    """Let go of what stdout could not get rid of; else the interpreter tries once more at its end, and says so."""
    with contextlib.suppress(OSError, ValueError):  # a stream that is no file of the system
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Stdout:
    """Standard output, whose errors are told from those of files that a command reads and writes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, words: str) -> int:
        with self._telling():
            return self._stream.write(words)

    def flush(self) -> None:
        with self._telling():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            throw_output_away()
            raise StoredFileError(
                f"the result could not be written to standard output: {error.strerror or error}. Make room where it "
                "goes, or send it elsewhere, and give the command once more."
            ) from error
