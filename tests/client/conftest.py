"""What the client's tests share: a fake server for faults, and the real one over both transports."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, TypeAlias

import pytest
from fake_server import FakeServer

from execsrv import ExecServerClient, spawn_local_exec_server

OpenClient: TypeAlias = Callable[[], ExecServerClient]


@pytest.fixture
def make_fake() -> Iterator[Callable[..., FakeServer]]:
    """Makes fake servers, which end with the test."""
    with ExitStack() as stack:

        def make(**initialize_result: Any) -> FakeServer:
            server = FakeServer(**initialize_result)
            stack.callback(server.close)
            return server

        yield make


@pytest.fixture
def fake(make_fake: Callable[..., FakeServer]) -> FakeServer:
    """A fake server."""
    return make_fake()


@pytest.fixture
def fake_client(fake: FakeServer) -> Iterator[ExecServerClient]:
    """A client of ``fake``."""
    with fake.connect() as client:
        yield client


@pytest.fixture(scope="session")
def local_client() -> Iterator[ExecServerClient]:
    """A client of a real server over stdio, for the whole run."""
    with spawn_local_exec_server() as client:
        yield client


@pytest.fixture
def websocket_client(server_url: str) -> Iterator[ExecServerClient]:
    """A client of the real websocket server."""
    with ExecServerClient.connect_websocket(server_url) as client:
        yield client


@pytest.fixture
def in_process_client() -> Iterator[ExecServerClient]:
    """A client that is its own server."""
    if "EXECSRV_UNDER_GEVENT" in os.environ:
        pytest.skip("gevent.subprocess, which starts the other servers, reaps the children of this one")
    with ExecServerClient.connect_in_process() as client:
        yield client


@pytest.fixture(params=["local", "websocket", "in_process"])
def any_client(request: pytest.FixtureRequest) -> ExecServerClient:
    """A client of a real server, over stdio, a websocket, or in this program."""
    found: ExecServerClient = request.getfixturevalue(f"{request.param}_client")
    return found


@pytest.fixture(params=["stdio", "websocket"])
def client(request: pytest.FixtureRequest) -> ExecServerClient:
    """A client of a real server, over either transport."""
    name = "local_client" if request.param == "stdio" else "websocket_client"
    found: ExecServerClient = request.getfixturevalue(name)
    return found
