"""Work that is done in parts, by several processes of this machine: whoever is free takes the next part.

What a part leaves behind is its own business; what it raises ends all of them. Knows processes, and no experiment.
"""

import multiprocessing
import multiprocessing.connection
import os
import queue
import threading
import traceback
from collections.abc import Callable
from typing import Any

from fastif.errors import FastifError
from fastif.progress import Progress, silent

Work = Callable[[int], None]
PATIENCE = 1.0  # seconds between two looks at whether a process is still there
INTERRUPTED = 130  # the status of a process that was told to end, as shells have it


def side_by_side(
    make_worker: Callable[[], Work], count: int, processes: int, *, what: str = "parts", progress: Progress = silent
) -> None:
    """Do the parts numbered 0 to count - 1, the first ones first.

    Args:
        make_worker: is called once in each process, and returns what does a part. It has to be something that can be
            sent to a process: a function of a module, or a dataclass with `__call__`.
        count: how many parts there are.
        processes: how many work at a time, not more than there are parts.
        what: the parts are called.
        progress: hears how many of them are done.
    """
    spawn = multiprocessing.get_context("spawn")  # a forked process could not use a GPU
    waiting: Any = spawn.Queue()
    ended: Any = spawn.Queue()
    for number in [*range(count), *[None] * processes]:
        waiting.put(number)
    threads = max(1, (os.cpu_count() or 1) // processes)
    started: list[Any] = []
    try:
        for _ in range(processes):
            process = spawn.Process(target=_work, args=(make_worker, waiting, ended, threads), daemon=True)
            process.start()
            started.append(process)
        for done in range(count):
            progress(what, done, count)
            _hear(ended, started)
        progress(what, count, count)
    finally:
        for process in started:
            process.join(PATIENCE)
            process.terminate()
            process.join()  # none of them is left when the error of one is told


def _hear(ended: Any, started: list[Any]) -> None:
    """Wait until a part is done; raise what it raised, or that a process died."""
    while True:
        lost = [process for process in started if process.exitcode not in (None, 0)]
        try:
            error = ended.get(timeout=PATIENCE)
        except queue.Empty:
            if lost:
                raise FastifError(
                    f"a process that was to do a part of the work ended with status {lost[0].exitcode}; it may have "
                    "run out of memory. What was finished is kept: give the command again, with fewer --processes."
                ) from None
            continue
        if error is not None:
            raise FastifError(error)
        return


def _work(make_worker: Callable[[], Work], waiting: Any, ended: Any, threads: int) -> None:
    import torch

    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    try:
        work = make_worker()
        while (number := waiting.get()) is not None:
            work(number)
            ended.put(None)
    except KeyboardInterrupt:  # which all processes of a terminal get: the first says what became of it
        os._exit(INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - raised by the process that waits for it
        if not isinstance(error, FastifError):
            traceback.print_exc()  # for who has to find out why, as only words are sent
        ended.put(f"{type(error).__name__}: {error}")


def _end_with_parent() -> None:
    """End this process when the one that started it is gone, however that was: nobody waits for what it does."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(INTERRUPTED)
