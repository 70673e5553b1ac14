"""Long work, one piece after another: a queue that everybody can see, with progress and cancelling.

A job is of a kind, and a worker for that kind does it in a thread, as models are not for several at once. Knows nothing
of models: workers are handed in, and report through `Report`.
"""

import itertools
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fastif.errors import FastifError

Kind = Literal["ask", "correct"]
State = Literal["waiting", "running", "done", "failed", "cancelled"]
Request = Mapping[str, Any]
MOST_WAITING = 16
MOST_KEPT = 50  # finished ones
log = logging.getLogger(__name__)


class Cancelled(Exception):  # noqa: N818 - no error: somebody wanted it
    """The job is not wanted any more."""


class QueueFullError(FastifError):
    """Too many jobs wait."""


@dataclass
class Job:
    """One piece of work, and how far it is; `found` is what is known of its result already."""

    id: int
    kind: Kind
    title: str
    request: Request
    state: State = "waiting"
    stage: str = ""
    done: int = 0
    total: int = 0
    found: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    unwanted: threading.Event = field(default_factory=threading.Event, repr=False)

    def as_json(self, *, whole: bool = False) -> dict[str, Any]:
        """Return it for the queue, or as a whole with what was found."""
        told = {
            name: getattr(self, name) for name in ("id", "kind", "title", "state", "stage", "done", "total", "error")
        }
        told["parts"] = len(self.found)  # grows when there is more to fetch
        return {**told, "found": self.found} if whole else told


@dataclass(frozen=True)
class Report:
    """What a worker tells of a job: progress, as `Progress` has it, and parts of the result as they are found."""

    job: Job
    changed: Callable[[], None]

    def __call__(self, stage: str, done: int, total: int, /) -> None:
        """Hear that so much of a stage is finished; stops the work of a job that is not wanted any more."""
        if self.job.unwanted.is_set():
            raise Cancelled
        self.job.stage, self.job.done, self.job.total = stage, done, total
        self.changed()

    def found(self, **parts: Any) -> None:
        """Give a part of the result."""
        if self.job.unwanted.is_set():
            raise Cancelled
        self.job.found = {**self.job.found, **parts}
        self.changed()


Work = Callable[[Request, Report], None]


class Jobs:
    """The queue, and the thread that works it off."""

    def __init__(self, workers: Mapping[Kind, Work]) -> None:
        self._workers = workers
        self._jobs: dict[int, Job] = {}
        self._numbers = itertools.count(1)
        self._condition = threading.Condition()
        self.version = 0
        threading.Thread(target=self._work, name="fastif jobs", daemon=True).start()

    @property
    def kinds(self) -> list[Kind]:
        """What can be asked for."""
        return list(self._workers)

    def submit(self, kind: Kind, title: str, request: Request) -> Job:
        """Put a job at the end of the queue."""
        with self._condition:
            if sum(job.state == "waiting" for job in self._jobs.values()) >= MOST_WAITING:
                raise QueueFullError(f"{MOST_WAITING} questions wait already. Wait for one of them, or cancel it.")
            job = Job(next(self._numbers), kind, title, dict(request))
            self._jobs[job.id] = job
            finished = [each.id for each in self._jobs.values() if each.state not in ("waiting", "running")]
            for number in finished[: max(0, len(finished) - MOST_KEPT)]:
                del self._jobs[number]
            self._change()
        return job

    def cancel(self, number: int) -> Job | None:
        """Take a job out of the queue, or stop it at its next sign of progress; None if there is none."""
        with self._condition:
            job = self._jobs.get(number)
            if job is not None:
                job.unwanted.set()
                if job.state == "waiting":
                    job.state = "cancelled"
                self._change()
        return job

    def get(self, number: int) -> Job | None:
        """Return a job."""
        with self._condition:
            return self._jobs.get(number)

    def all(self) -> list[dict[str, Any]]:
        """Return all jobs for the queue, the oldest first."""
        with self._condition:
            return [job.as_json() for job in self._jobs.values()]

    def _change(self) -> None:
        with self._condition:
            self.version += 1
            self._condition.notify_all()

    def _next(self) -> Job:
        with self._condition:
            while True:
                job = next((each for each in self._jobs.values() if each.state == "waiting"), None)
                if job is not None:
                    job.state = "running"
                    self._change()
                    return job
                self._condition.wait()

    def _work(self) -> None:
        while True:
            job = self._next()
            try:
                self._workers[job.kind](job.request, Report(job, self._change))
                job.state = "done"
            except Cancelled:
                job.state = "cancelled"
            except FastifError as error:
                job.state, job.error = "failed", str(error)
            except Exception as error:  # the queue goes on whatever a model does
                log.exception("a job failed")
                job.state, job.error = "failed", f"{type(error).__name__}: {error}"
            self._change()
