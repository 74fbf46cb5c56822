"""What all tests need, and the fixtures of those of ``execsrv run``."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from run_program import Server

# The programs under test would inherit it when these are ignored, as in the background of a script.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One server for all tests."""
    server = Server()
    yield server
    server.end()


@pytest.fixture(scope="session")
def server_url(server: Server) -> str:
    """Its websocket URL."""
    return server.url


@pytest.fixture(params=["local", "url"])
def to(request: pytest.FixtureRequest) -> list[str]:
    """Options that choose the server: none for one of its own."""
    return ["--url", request.getfixturevalue("server").url] if request.param == "url" else []
