"""The application behind `fastif serve`: the page, its data, and a queue of questions to a model that stays loaded.

Every file that it gives away is known by its name when it starts; no path of a request is ever one of the disk. Knows
payloads and jobs; workers for the jobs are handed in, as models stand outside of this room.
"""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from fastif.errors import ConfigurationError, DataError
from fastif.web.marks import as_parquet, mark_rows
from fastif.web.page import MEDIA, static_names, static_text
from fastif.web.payload import Payload
from fastif.web.server.guard import Guard
from fastif.web.server.jobs import Jobs, Kind, QueueFullError, Work
from fastif.web.server.limits import LARGEST_RATE, LONGEST_QUESTION, MOST_MARKS, MOST_MARKS_BODY

MARKS = "/marks.parquet"
MOST_LISTENERS = 64
LOOK_EVERY = 0.2  # seconds
QUIET = 15.0  # seconds after which a listener hears that the server is still there
REFUSALS: dict[int | str, dict[str, Any]] = {404: {}, 429: {}}
Number = Annotated[int, Field(ge=1, le=2**31)]


class Question(BaseModel):
    """A text to explain, typed on the page."""

    model_config = ConfigDict(extra="forbid")
    text: Annotated[str, Field(min_length=1, max_length=LONGEST_QUESTION, pattern=r"\S")]  # more than spaces
    text_pair: Annotated[str, Field(max_length=LONGEST_QUESTION)] | None = None
    label: Annotated[str, Field(max_length=200)] | None = None


class Mark(BaseModel):
    """A person's verdict on a training example: keep, remove, or label: and the name of a class."""

    model_config = ConfigDict(extra="forbid")
    index: Annotated[int, Field(ge=0, lt=2**32)]
    verdict: Annotated[str, Field(max_length=500)]


class Marks(BaseModel):
    """Verdicts to be written to a file, one for each training example."""

    model_config = ConfigDict(extra="forbid")
    marks: Annotated[list[Mark], Field(min_length=1, max_length=MOST_MARKS)]


class JobNumber(BaseModel):
    """The number of a job that was put into the queue."""

    id: int


class Steps(BaseModel):
    """What may be chosen of a correction; what is not takes the value that the server was started with."""

    model_config = ConfigDict(extra="forbid")
    learning_rate: Annotated[float, Field(gt=0, le=LARGEST_RATE)] | None = None


class About(BaseModel):
    """What this server can do beyond showing a run."""

    can: list[Kind]
    correction: str | None
    learning_rate: float | None
    largest_rate: float = LARGEST_RATE
    longest_question: int = LONGEST_QUESTION


class _Listeners:
    """How many pages listen to the queue."""

    def __init__(self) -> None:
        self.count = 0


def make_app(
    payload: Payload,
    *,
    token: str,
    hosts: Sequence[str],
    workers: Mapping[Kind, Work] | None = None,
    correction: str = "",
    learning_rate: float | None = None,
) -> Guard:
    """Return the application.

    Args:
        payload: what the page shows.
        token: what every address begins with.
        hosts: names with ports by which this server may be asked.
        workers: what is done for each kind of job; none of them, and the page only shows.
        correction: in words, what a correction would take and measure.
        learning_rate: of its steps, unless the page asks for another.
    """
    app = FastAPI(title="fastif explorer", docs_url=None, redoc_url=None, openapi_url=None)
    _add_page(app, payload)
    _add_marks(app, payload)
    jobs = Jobs(workers or {})
    _add_questions(app, jobs, About(can=jobs.kinds, correction=correction or None, learning_rate=learning_rate))
    _add_queue(app, jobs)
    return Guard(app, token, frozenset(hosts), {MARKS: MOST_MARKS_BODY})


def _add_page(app: FastAPI, payload: Payload) -> None:
    content = payload.as_bytes()
    packed = gzip.compress(content, compresslevel=6, mtime=0)
    static = {name: static_text(name) for name in static_names() if name != "index.html"}
    page = static_text("index.html")

    @app.get("/", response_class=Response)
    async def index() -> Response:
        return Response(page, media_type="text/html")

    @app.get("/static/{name}", response_class=Response, responses={404: {}})
    async def file(name: str) -> Response:
        if name not in static:
            raise HTTPException(404, "There is no such file.")
        return Response(static[name], media_type=MEDIA[name[name.rindex(".") :]])

    @app.get("/data", response_class=Response)
    async def data(request: Request) -> Response:
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(packed, media_type="application/octet-stream", headers={"content-encoding": "gzip"})
        return Response(content, media_type="application/octet-stream")


def _add_marks(app: FastAPI, payload: Payload) -> None:
    @app.post(MARKS, response_class=Response, responses={400: {}, 501: {}})
    async def marks(given: Marks) -> Response:
        try:
            rows = mark_rows(payload, {each.index: each.verdict for each in given.marks})
            return Response(as_parquet(rows), media_type="application/vnd.apache.parquet")
        except ConfigurationError as error:  # nothing to write it with
            raise HTTPException(501, str(error)) from error
        except DataError as error:
            raise HTTPException(400, str(error)) from error


def _add_questions(app: FastAPI, jobs: Jobs, what: About) -> None:
    @app.get("/about")
    async def about() -> About:
        return what

    def submit(kind: Kind, title: str, request: Mapping[str, Any]) -> JobNumber:
        if kind not in jobs.kinds:
            raise HTTPException(404, "This server shows a run and answers no questions.")
        try:
            return JobNumber(id=jobs.submit(kind, title, request).id)
        except QueueFullError as error:
            raise HTTPException(429, str(error)) from error

    @app.post("/ask", responses=REFUSALS)
    async def ask(question: Question) -> JobNumber:
        return submit("ask", question.text[:200], question.model_dump())

    @app.post("/correct", responses=REFUSALS)
    async def correct(steps: Steps | None = None) -> JobNumber:
        rate = (steps and steps.learning_rate) or what.learning_rate
        size = "" if rate is None else f", steps of {rate:g}"
        return submit("correct", f"Correction: {what.correction}{size}", {"learning_rate": rate})


def _add_queue(app: FastAPI, jobs: Jobs) -> None:
    listeners = _Listeners()

    @app.get("/jobs/{number}", responses=REFUSALS)
    async def job(number: Number) -> dict[str, Any]:
        found = jobs.get(number)
        if found is None:
            raise HTTPException(404, "There is no such job.")
        return found.as_json(whole=True)

    @app.delete("/jobs/{number}", responses=REFUSALS)
    async def cancel(number: Number) -> dict[str, Any]:
        found = jobs.cancel(number)
        if found is None:
            raise HTTPException(404, "There is no such job.")
        return found.as_json()

    @app.get("/events", responses=REFUSALS, response_class=StreamingResponse)
    async def events() -> StreamingResponse:
        if listeners.count >= MOST_LISTENERS:
            raise HTTPException(429, "Too many pages listen already.")
        return StreamingResponse(_events(jobs, listeners), media_type="text/event-stream")


async def _events(jobs: Jobs, listeners: _Listeners) -> AsyncIterator[str]:
    """Yield the queue whenever it has changed."""
    listeners.count += 1
    try:
        seen, quiet = -1, 0.0
        while True:
            if jobs.version != seen:
                seen, quiet = jobs.version, 0.0
                yield f"data: {json.dumps(jobs.all(), allow_nan=False)}\n\n"
            elif quiet >= QUIET:
                quiet = 0.0
                yield ": still here\n\n"
            await asyncio.sleep(LOOK_EVERY)
            quiet += LOOK_EVERY
    finally:
        listeners.count -= 1
