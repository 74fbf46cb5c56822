"""Fixtures of the transports' tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from transport_peers import HubThread, RawClient, Server


@pytest.fixture
def hub() -> Iterator[HubThread]:
    """A hub on a thread of its own."""
    thread = HubThread()
    yield thread
    thread.end()


@pytest.fixture
def start_server(hub: HubThread) -> Iterator[Callable[..., Server]]:
    """Starts servers with the options given; stops them at the end."""
    with ExitStack() as stack:

        def start(**options: Any) -> Server:
            server = Server(hub, **options)
            stack.callback(server.end)
            return server

        yield start


@pytest.fixture
def connect() -> Iterator[Callable[..., RawClient]]:
    """Connects raw clients to a server; closes them at the end."""
    with ExitStack() as stack:

        def connect_to(server: Server, **options: Any) -> RawClient:
            client = RawClient(server.address, **options)
            stack.callback(client.close)
            return client

        yield connect_to
