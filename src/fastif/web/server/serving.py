"""A socket, a token and a loop: from an application to an address that a browser opens."""

import ipaddress
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass

import uvicorn

from fastif.errors import ConfigurationError
from fastif.web.server.guard import App

LOOPBACK = "127.0.0.1"
MOST_CONNECTIONS = 256
LONGEST_HEADERS = 16 * 1024


@dataclass(frozen=True)
class Address:
    """Where a server listens, and by which names it may be asked."""

    listener: socket.socket
    host: str
    token: str

    @property
    def port(self) -> int:
        """The port, also where any free one was asked for."""
        return int(self.listener.getsockname()[1])

    @property
    def url(self) -> str:
        """What to open, with the token."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/{self.token}/"

    @property
    def names(self) -> list[str]:
        """What the Host header may be."""
        names = [f"[{self.host}]" if ":" in self.host else self.host]
        if is_loopback(self.host):
            names += ["localhost", "127.0.0.1", "[::1]"]
        return [f"{name}:{self.port}" for name in dict.fromkeys(names)]


def is_loopback(host: str) -> bool:
    """Say whether only programs of this machine can reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str = LOOPBACK, port: int = 0) -> Address:
    """Take a port, any free one unless it is given, and draw a token."""
    listener = None
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(MOST_CONNECTIONS)  # who asks before the loop runs waits, rather than being refused
    except OSError as error:
        if listener is not None:
            listener.close()
        raise ConfigurationError(
            f"{host}:{port} cannot be listened on: {error}. Choose another --port, or none, and a free one is taken."
        ) from error
    return Address(listener, host, secrets.token_urlsafe(24))


def serve(app: App, address: Address, *, ready: Callable[[], None] = lambda: None) -> None:
    """Serve until it is interrupted."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # addresses hold the token
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=1,  # pages that listen would keep it for ever
        h11_max_incomplete_event_size=LONGEST_HEADERS,
        ws="none",
    )
    ready()
    uvicorn.Server(config).run(sockets=[address.listener])
