"""A server listens on this machine alone unless told otherwise, with a token that is new each time."""

import socket

import pytest

pytest.importorskip("uvicorn")

from fastif.errors import ConfigurationError
from fastif.web.server.serving import listen


def test_it_listens_on_this_machine_with_a_new_token() -> None:
    first, second = listen(), listen()
    try:
        assert first.listener.getsockname()[0] == "127.0.0.1"
        assert first.token != second.token
        assert len(first.token) >= 32
        assert first.url == f"http://127.0.0.1:{first.port}/{first.token}/"
        assert f"localhost:{first.port}" in first.names
        with pytest.raises(ConfigurationError, match="cannot be listened on"):
            listen(port=first.port)
    finally:
        first.listener.close()
        second.listener.close()


def test_who_asks_before_the_loop_runs_is_not_refused() -> None:
    address = listen()
    with address.listener, socket.create_connection(("127.0.0.1", address.port), timeout=5) as asked:
        answered, from_where = address.listener.accept()
        answered.close()
        assert from_where == asked.getsockname()
