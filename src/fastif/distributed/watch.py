"""Watch: every process says that it is alive, and hears when another is not.

A thread counts up a number of its own in the store that torchrun keeps, and looks at those of the others. Whose number
stands still for `LOST` seconds is gone: killed, cut off, or its machine is. A process that fails says why before it
ends. A call that waits for one that is gone may never return, so that a second thread, which waits for nobody, ends the
process where it does not end by itself.
"""

import contextlib
import os
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a torch without torch.distributed has none
    from torch._C._distributed_c10d import Store

BEAT, LOST, GRACE = 1.0, 15.0, 5.0  # seconds: between signs of life, until one is missed, until the process is ended
FAILED, HEARD = "fastif/failed", "fastif/heard"


class Watch:
    """Signs of life of all processes."""

    def __init__(self, store: "Store", rank: int, ranks: int, hosts: list[str]) -> None:
        self._store, self._rank, self.hosts = store, rank, hosts
        self._others = [other for other in range(ranks) if other != rank]
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._beat, self._guard)]
        self._last_answer = time.monotonic()
        self._ended = threading.Event()
        self._resting = threading.Event()
        self._found = threading.Event()
        self._why = ""
        store.set(_key(rank), "0")

    def start(self) -> None:
        """Begin, once all processes have said that they are there."""
        if self._others:
            self._store.wait([_key(other) for other in self._others])
            self._last_answer = time.monotonic()
            for thread in self._threads:
                thread.start()

    def stop(self) -> None:
        """End: from here on nobody may miss this process."""
        self._ended.set()
        if self._others:
            for thread in self._threads:  # first, as a last beat would write over the word
                thread.join(timeout=2 * BEAT)
            self._quietly_set(_key(self._rank), "left")

    def rest(self) -> None:
        """From here on this process waits for nobody: that another is gone does not end it, until `attend`."""
        self._resting.set()

    def attend(self) -> None:
        """From here on this process needs all others."""
        self._resting.clear()

    def fail(self, error: BaseException) -> None:
        """Tell the others why this process ends, and wait until one of them has heard of it."""
        if not self._others or self._found.is_set():
            return
        said = str(error) or type(error).__name__
        self._quietly_set(FAILED, f"{self.name(self._rank)} failed: {said}")
        until = time.monotonic() + 5 * BEAT
        while time.monotonic() < until and not self._quietly_check(HEARD):
            time.sleep(0.1)

    def reason(self, patience: float, otherwise: str) -> str:
        """Return why a connection broke, as soon as it is known."""
        if self._found.wait(timeout=patience):
            return self._why
        return f"{self.name(self._rank)} lost its connection to another process: {otherwise.splitlines()[0]}"

    def name(self, rank: int) -> str:
        """Return a process in words."""
        return f"rank {rank} (on {self.hosts[rank]})"

    def _beat(self) -> None:
        """Say that this process is alive, and look whether the others are."""
        count, last = 0, {other: ("", time.monotonic()) for other in self._others}
        while not self._ended.wait(BEAT):
            count += 1
            try:
                self._store.set(_key(self._rank), str(count))
                if self._store.check([FAILED]):
                    self._store.set(HEARD, "1")
                    return self._tell(self._store.get(FAILED).decode())
                beats = self._store.multi_get([_key(other) for other in self._others])
            except RuntimeError:  # the store's own machine is gone
                return self._tell(self._cut_off())
            now = self._last_answer = time.monotonic()
            for other, beat in zip(self._others, (each.decode() for each in beats), strict=True):
                if beat == "left" or beat != last[other][0]:
                    last[other] = beat, now
                elif now - last[other][1] > LOST:
                    gone = f"{self.name(other)} has given no sign of life for {LOST:.0f} s: it was killed or cut off"
                    return self._tell(gone)
        return None

    def _guard(self) -> None:
        """End the process where something was found, and nothing came of it."""
        while not self._ended.wait(BEAT):
            if not self._found.is_set() and time.monotonic() - self._last_answer > LOST:
                self._tell(self._cut_off())
            if self._found.is_set() and not self._resting.is_set():
                if self._ended.wait(GRACE):
                    return
                if self._resting.is_set():
                    continue
                sys.stderr.write(f"Error: {self._why}. What was finished is kept: give the same command once more.\n")
                sys.stderr.flush()
                os._exit(1)

    def _tell(self, why: str) -> None:
        self._why = why
        self._found.set()

    def _cut_off(self) -> str:
        return f"{self.name(self._rank)} cannot reach the machine of rank 0 ({self.hosts[0]}) any more"

    def _quietly_set(self, key: str, value: str) -> None:
        with contextlib.suppress(RuntimeError):  # nobody is left to read it
            self._store.set(key, value)

    def _quietly_check(self, key: str) -> bool:
        try:
            return bool(self._store.check([key]))
        except RuntimeError:
            return True


def _key(rank: int) -> str:
    return f"fastif/beat/{rank}"
