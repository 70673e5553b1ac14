"""`python -m fastif`: the command line, or what to install for it."""

import atexit
import contextlib
import os
import signal
import sys
from collections.abc import Iterator

INTERRUPTED = 130  # the status of a program that Ctrl-C ended, as shells have it


def main() -> int:
    """Run the command line."""
    try:
        with _ending_at_once():
            from fastif.cli.app import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich", "click"):
            raise
        sys.stderr.write("The command line needs typer and rich: pip install 'fastif[cli,hf]'\n")
        return 1
    try:
        status = run()
    except KeyboardInterrupt:  # before the program has begun, or after its end
        return INTERRUPTED
    if "RANK" in os.environ:
        _end_now(status)
    return status


def _end_now(status: int) -> None:
    """End a process that torchrun started, without what C++ does last: all is written, and nobody is waited for.

    Threads that torch keeps for its connections may abort there, and what was finished would be called a failure.
    """
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):  # a pipe whose reader has seen enough
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


@contextlib.contextmanager
def _ending_at_once() -> Iterator[None]:
    """Have Ctrl-C end the program: as an exception it would be a traceback, or be swallowed by what is imported.

    A library that tries an import and finds it not there takes an interrupt for just that, and what it says next is
    wrong. Where somebody else has said what Ctrl-C does, as a shell does of what runs in its background, it stays so.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def end(*_: object) -> None:
        os.write(2, b"\nInterrupted.\n")
        os._exit(INTERRUPTED)

    try:
        signal.signal(signal.SIGINT, end)
    except ValueError:  # not in the main thread, which alone is interrupted
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if __name__ == "__main__":
    sys.exit(main())
