"""Fixtures of the tests that run the real program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from links import Program
from peer import OpenPeer, Peer


@pytest.fixture(scope="session")
def server() -> Iterator[Program]:
    """One websocket server for all tests that want the usual options."""
    program = Program.listening()
    yield program
    program.end()


@pytest.fixture
def listen() -> Iterator[Callable[..., Program]]:
    """Starts websocket servers with the options given; stops them at the end."""
    with ExitStack() as stack:

        def start(*options: str, **popen: Any) -> Program:
            program = Program.listening(*options, **popen)
            stack.callback(program.end)
            return program

        yield start


@pytest.fixture
def open_stdio() -> Iterator[OpenPeer]:
    """Opens peers over stdio, each with a server of its own and no handshake yet."""
    with ExitStack() as stack:

        def open_one(*options: str, **popen: Any) -> Peer:
            peer = Peer.over_stdio(*options, **popen)
            stack.callback(peer.close)
            return peer

        yield open_one


@pytest.fixture
def open_websocket(server: Program) -> Iterator[OpenPeer]:
    """Opens peers of the one server, or of another, without the handshake of the protocol."""
    with ExitStack() as stack:

        def open_one(to: Program = server) -> Peer:
            peer = Peer.over_websocket(to)
            stack.callback(peer.close)
            return peer

        yield open_one


@pytest.fixture(params=["stdio", "websocket"])
def open_peer(
    request: pytest.FixtureRequest,
    listen: Callable[..., Program],
    open_stdio: OpenPeer,
    open_websocket: OpenPeer,
) -> OpenPeer:
    """Opens peers over one transport; with options, to a server of their own."""

    def open_one(*options: str) -> Peer:
        if request.param == "stdio":
            return open_stdio(*options)
        return open_websocket(listen(*options)) if options else open_websocket()

    return open_one


class _Keeper:
    """Keeps one stdio server from test to test, since its start takes long; a test that fails takes it along."""

    def __init__(self) -> None:
        self._idle: Peer | None = None

    def take(self) -> Peer:
        peer, self._idle = self._idle, None
        return peer or Peer.over_stdio().handshake()

    def give_back(self, peer: Peer) -> None:
        peer.leave_nothing()
        self._idle = peer

    def end(self) -> None:
        if self._idle:
            self._idle.close()


@pytest.fixture(scope="session")
def keeper() -> Iterator[_Keeper]:
    """The stdio server that tests may have one after the other."""
    keeper = _Keeper()
    yield keeper
    keeper.end()


@pytest.fixture(params=["stdio", "websocket"])
def peer(request: pytest.FixtureRequest, keeper: _Keeper, open_websocket: OpenPeer) -> Iterator[Peer]:
    """A peer after the handshake."""
    if request.param == "websocket":
        yield open_websocket().handshake()
        return
    kept = keeper.take()
    try:
        yield kept
        keeper.give_back(kept)
    except BaseException:
        kept.close()
        raise
