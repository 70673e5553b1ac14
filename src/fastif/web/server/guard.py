"""Who may ask the server, and for how much: the checks that come before every answer.

A page of another site can make a browser ask any address, this one too, so that three things are checked: the token,
which the page alone knows; Host, against names that lead here by another's DNS; Origin, where a browser gives one.
Knows requests as ASGI has them, and not what they ask for.
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from fastif.web.server.limits import MOST_BODY

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LONGEST_PATH = 512
TOO_LARGE = "The body is too large."
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Guard:
    """An application behind the checks.

    Args:
        app: what answers; it sees paths without the token.
        token: the first part of every path.
        hosts: what the Host header may be, with the port.
        larger: how many bytes a body may have, by path, where that is more than usual.
    """

    app: App
    token: str
    hosts: frozenset[str]
    larger: Mapping[str, int] = field(default_factory=dict)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or say why not."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # no socket is offered
            return
        refused = self._refused(scope)
        if refused is not None:
            await _refuse(send, *refused)
            return
        inner = {**scope, "path": self._inner(scope), "raw_path": None}
        body = _Body(receive, self._most(scope))
        ended = False

        async def sending(message: Message) -> None:
            nonlocal ended
            if ended:
                return
            if body.is_too_large:  # whatever the application made of it
                ended = True
                await _refuse(send, 413, TOO_LARGE)
                return
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *_headers()]}
            await send(message)

        await self.app(inner, body.receive, sending)

    def _inner(self, scope: Scope) -> str:
        return str(scope["path"][len(self.token) + 1 :]) or "/"

    def _most(self, scope: Scope) -> int:
        return self.larger.get(self._inner(scope), MOST_BODY)

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        headers = _first(scope)
        path = scope["path"]
        if headers.get("host") not in self.hosts:
            return 400, "This address is not one of this server's."
        origin = headers.get("origin")
        if origin is not None and origin.removeprefix("http://") not in self.hosts:
            return 403, "Another site may not ask this server."
        if len(path) > LONGEST_PATH + len(self.token) or len(scope.get("query_string", b"")) > LONGEST_PATH:
            return 414, "The address is too long."
        first = path.split("/")[1] if path.startswith("/") else ""
        if not secrets.compare_digest(first.encode(), self.token.encode()):
            return 404, "There is nothing here. Open the address that fastif serve printed, with its token."
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length) > self._most(scope):
            return 413, TOO_LARGE
        return None


def _first(scope: Scope) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
    return found


class _Body:
    """A body that ends when more comes than may, whatever the header said."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive, self._most = receive, most
        self._seen = 0

    @property
    def is_too_large(self) -> bool:
        return self._seen > self._most

    async def receive(self) -> Message:
        message = await self._receive()
        self._seen += len(message.get("body", b""))
        return {"type": "http.request", "body": b"", "more_body": False} if self.is_too_large else message


def _headers() -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in HEADERS.items()]


async def _refuse(send: Send, status: int, words: str) -> None:
    body = (words + "\n").encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *_headers()]})
    await send({"type": "http.response.body", "body": body})
