"""Tests of execsrv.client.websocket_stream against the server of the ``websockets`` library, and plain sockets."""

from __future__ import annotations

import http
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, Self, TypeAlias

import pytest
from background import Background
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.sync.server import Server, ServerConnection, serve

from execsrv.client.errors import ClosedError, ConnectError, ConnectTimeout
from execsrv.client.websocket_stream import FRAME_BYTES, WebSocketStream, open_websocket

WAIT = 20.0

Serve: TypeAlias = Callable[..., str]
OpenStream: TypeAlias = Callable[..., WebSocketStream]


def ignore() -> None:
    """There is nothing to let out."""


@pytest.fixture
def serve_with() -> Iterator[Serve]:
    """Serves each connection with a function; returns the URL."""
    servers: list[Server] = []

    def start(handler: Callable[[ServerConnection], None], **options: Any) -> str:
        server = serve(handler, "127.0.0.1", 0, compression=None, **options)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"ws://127.0.0.1:{server.socket.getsockname()[1]}"

    yield start
    for server in servers:
        server.shutdown()


@pytest.fixture
def open_stream() -> Iterator[OpenStream]:
    """Opens streams, which are closed at the end."""
    streams: list[WebSocketStream] = []

    def start(url: str, **options: Any) -> WebSocketStream:
        streams.append(open_websocket(url, WAIT, **options))
        return streams[-1]

    yield start
    for stream in streams:
        stream.abort()
        stream.close()


class HalfServer:
    """Accepts one connection, shakes hands, and then neither reads nor speaks by itself: ``peer`` is its socket.

    What it says ``at_once`` comes along with the handshake.
    """

    def __init__(self, at_once: bytes = b"") -> None:
        self._at_once = at_once

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"ws://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._shake_hands)
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._thread.join(WAIT)
        self.peer.close()
        self._listener.close()

    def _shake_hands(self) -> None:
        self.peer, _ = self._listener.accept()
        protocol = ServerProtocol()
        while not (events := protocol.events_received()):
            protocol.receive_data(self.peer.recv(65536))
        (request,) = events
        assert isinstance(request, Request)
        protocol.send_response(protocol.accept(request))
        self.peer.sendall(b"".join(protocol.data_to_send()) + self._at_once)


def echo(connection: ServerConnection) -> None:
    """Send back what comes."""
    for message in connection:
        connection.send(message)


def read_on(connection: ServerConnection) -> None:
    """Take what comes, until the client ends the connection."""
    for _ in connection:
        pass


def test_messages_go_both_ways(serve_with: Serve, open_stream: OpenStream) -> None:
    """A message is a text message; text and binary ones come back as bytes."""

    def answer(connection: ServerConnection) -> None:
        assert connection.recv() == "grüße"
        connection.send("text")
        connection.send(b"binary")
        read_on(connection)

    stream = open_stream(serve_with(answer))
    stream.send("grüße".encode())
    messages = stream.messages(ignore)
    assert [next(messages), next(messages)] == [b"text", b"binary"]


def test_long_message_is_sent_in_frames_of_bounded_size(serve_with: Serve, open_stream: OpenStream) -> None:
    """Between them a pong can get out."""
    sizes: list[int] = []

    def measure(connection: ServerConnection) -> None:
        sizes.extend(len(part) for part in connection.recv_streaming())
        connection.send("done")

    stream = open_stream(serve_with(measure, max_size=None))
    stream.send(b"x" * (3 * FRAME_BYTES + 5))
    assert next(stream.messages(ignore)) == b"done"
    assert sum(sizes) == 3 * FRAME_BYTES + 5
    assert max(sizes) <= FRAME_BYTES


def test_fragments_become_one_message(serve_with: Serve, open_stream: OpenStream) -> None:
    """However the server cuts it."""

    def cut(connection: ServerConnection) -> None:
        connection.send(["one", "two", "three"])
        read_on(connection)

    assert next(open_stream(serve_with(cut)).messages(ignore)) == b"onetwothree"


def test_ping_is_answered_when_poked(serve_with: Serve, open_stream: OpenStream) -> None:
    """The pong is ready before ``poke``, and goes out with the next, even empty, message."""
    ponged = threading.Event()

    def ping(connection: ServerConnection) -> None:
        if connection.ping().wait(WAIT):
            ponged.set()
        read_on(connection)

    stream = open_stream(serve_with(ping))
    poked = threading.Event()
    reading = Background(lambda: list(stream.messages(poked.set)))
    assert poked.wait(WAIT)
    stream.send(b"")
    assert ponged.wait(WAIT)
    stream.abort()
    with pytest.raises((ClosedError, OSError)):
        reading.result()


def test_silent_server_is_asked_and_given_up(open_stream: OpenStream) -> None:
    """A server that is there but dead ends the connection within two intervals."""
    with HalfServer() as server:
        stream = open_stream(server.url, ping_seconds=0.1)
        pings: list[None] = []
        with pytest.raises(ClosedError, match="silent"):
            list(stream.messages(lambda: pings.append(None)))
        assert len(pings) == 1


def test_answering_server_is_alive(serve_with: Serve, open_stream: OpenStream) -> None:
    """A pong is a sign of life, though no message comes for many intervals."""
    asked = threading.Semaphore(0)

    def speak_late(connection: ServerConnection) -> None:
        for _ in range(5):
            assert asked.acquire(timeout=WAIT)
        connection.send("at last")
        read_on(connection)

    stream = open_stream(serve_with(speak_late), ping_seconds=0.1)

    def pong() -> None:
        stream.send(b"")
        asked.release()

    assert next(stream.messages(pong)) == b"at last"


def test_message_that_comes_along_with_the_handshake(open_stream: OpenStream) -> None:
    """It is not forgotten."""
    with HalfServer(at_once=b"\x81\x02hi") as server:
        assert next(open_stream(server.url).messages(ignore)) == b"hi"


def test_close_by_the_server_tells_why(serve_with: Serve, open_stream: OpenStream) -> None:
    """The reason of the close frame is in the error."""
    stream = open_stream(serve_with(lambda connection: connection.close(1001, "going home")))
    with pytest.raises(ClosedError, match="1001.*going home"):
        next(stream.messages(ignore))


def test_finish_begins_the_closing_handshake(serve_with: Serve, open_stream: OpenStream) -> None:
    """The server sees a regular end; after it nothing can be sent."""
    codes: list[int | None] = []
    seen = threading.Event()

    def wait_for_end(connection: ServerConnection) -> None:
        read_on(connection)
        codes.append(connection.protocol.close_code)
        seen.set()

    stream = open_stream(serve_with(wait_for_end))
    stream.finish()
    with pytest.raises(ClosedError, match="1000"):
        next(stream.messages(ignore))
    stream.abort()
    assert seen.wait(WAIT)
    assert codes == [1000]
    with pytest.raises(BrokenPipeError):
        stream.send(b"late")


def test_abort_wakes_the_reader(serve_with: Serve, open_stream: OpenStream) -> None:
    """Also one that waits for a silent server."""
    stream = open_stream(serve_with(read_on))
    reading = Background(lambda: next(stream.messages(ignore)))
    stream.abort()
    with pytest.raises((ClosedError, OSError)):
        reading.result()


def test_reading_goes_on_while_a_send_is_stuck(open_stream: OpenStream) -> None:
    """A server that wants to be read before it reads gets its way."""
    with HalfServer() as server:
        stream = open_stream(server.url)
        sending = Background(lambda: stream.send(b"x" * 50_000_000))
        server.peer.sendall(b"\x81\x02hi")
        assert next(stream.messages(ignore)) == b"hi"
        assert sending.is_running()
        stream.abort()
        with pytest.raises(OSError):
            sending.result()


def test_refused_handshake(serve_with: Serve) -> None:
    """The status is in the error."""
    url = serve_with(echo, process_request=lambda connection, _: connection.respond(http.HTTPStatus.FORBIDDEN, "no"))
    with pytest.raises(ConnectError, match=f"can't connect to {url}: .*403"):
        open_websocket(url, WAIT)


def test_nobody_listens() -> None:
    """A refused connection is a ConnectError with the URL."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        url = f"ws://127.0.0.1:{sock.getsockname()[1]}"
    with pytest.raises(ConnectError) as caught:
        open_websocket(url, WAIT)
    assert caught.value.url == url


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "nonsense", "wss://127.0.0.1:1", "ws://127.0.0.1:99999"])
def test_bad_url(url: str) -> None:
    """What is no ws:// URL is a ConnectError too."""
    with pytest.raises(ConnectError, match="can't connect to"):
        open_websocket(url, WAIT)


def test_handshake_that_is_never_answered() -> None:
    """Time is limited, and the error knows the limit."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        url = f"ws://127.0.0.1:{sock.getsockname()[1]}"
        with pytest.raises(ConnectTimeout) as caught:
            open_websocket(url, 0.1)
    assert (caught.value.url, caught.value.timeout) == (url, 0.1)
    assert isinstance(caught.value, TimeoutError)


def test_handshake_that_trickles_in() -> None:
    """A byte now and then is no reason to wait longer."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        url = f"ws://127.0.0.1:{sock.getsockname()[1]}"
        connecting = Background(lambda: open_websocket(url, 0.2))
        with sock.accept()[0] as accepted:
            while connecting.is_running():
                accepted.sendall(b"H")
                threading.Event().wait(0.01)
        with pytest.raises(ConnectTimeout):
            connecting.result()


def test_handshake_that_ends_early() -> None:
    """A server that hangs up is a ConnectError."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        url = f"ws://127.0.0.1:{sock.getsockname()[1]}"
        connecting = Background(lambda: open_websocket(url, WAIT))
        accepted, _ = sock.accept()
        accepted.shutdown(socket.SHUT_RDWR)
        accepted.close()
        with pytest.raises(ConnectError):
            connecting.result()
