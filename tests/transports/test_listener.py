"""Accepting websockets: good requests, bad ones, too many, too slow."""

from __future__ import annotations

import errno
import logging
import queue
import resource
import socket
import struct
from collections.abc import Callable, Iterator
from wsgiref.types import StartResponse, WSGIEnvironment

import gevent.socket
import pytest
from transport_peers import HANDSHAKE, PATIENCE, HubThread, RawClient, Server, nothing
from websockets.frames import Opcode

from execsrv.config import ExecServerConfig
from execsrv.transports import Transport
from execsrv.transports.handshake import Allowed
from execsrv.transports.listener import MAX_HEAD_BYTES, WebSocketListener, WebSocketServer

Start = Callable[..., Server]
Connect = Callable[..., RawClient]  # of whatever has an address


class QueueHandler(logging.Handler):
    """Hands records on as they are."""

    def __init__(self, records: queue.Queue[logging.LogRecord]) -> None:
        super().__init__()
        self._records = records

    def emit(self, record: logging.LogRecord) -> None:
        self._records.put(record)


@pytest.fixture
def records() -> Iterator[queue.Queue[logging.LogRecord]]:
    """What the listener logs, debug messages too."""
    found: queue.Queue[logging.LogRecord] = queue.Queue()
    handler = QueueHandler(found)
    logger = logging.getLogger("execsrv.transports.listener")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield found
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


def changed(**changes: str | None) -> dict[str, str]:
    """The headers of a correct handshake with changes; None leaves one out."""
    headers = {**HANDSHAKE, **{name.replace("_", "-"): value for name, value in changes.items()}}
    return {name: value for name, value in headers.items() if value is not None}


# ---- addresses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host, start", [("127.0.0.1", "ws://127.0.0.1:"), ("::1", "ws://[::1]:")])
def test_it_listens_on_both_kinds_of_addresses(start_server: Start, connect: Connect, host: str, start: str) -> None:
    """The URL tells the port that was picked."""
    server = start_server(host=host)
    assert server.url.startswith(start) and server.address[1] > 0
    assert connect(server).request() == 101


def test_an_address_in_use_is_the_callers_error(start_server: Start, hub: HubThread) -> None:
    """The OSError comes out."""
    taken = start_server().address[1]
    with pytest.raises(OSError) as caught:
        hub.call(WebSocketListener, "127.0.0.1", taken, lambda transport: None, ExecServerConfig())
    assert caught.value.errno == errno.EADDRINUSE


# ---- requests --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line, headers, status",
    [
        ("GET / HTTP/1.1", {"Host": "127.0.0.1"}, 426),
        ("GET / HTTP/1.0", {}, 426),
        ("GET / HTTP/1.0", HANDSHAKE, 426),
        ("POST / HTTP/1.1", {"Host": "127.0.0.1", "Content-Length": "4"}, 426),
        ("POST / HTTP/1.1", {"Host": "127.0.0.1", "Content-Length": "1000000000"}, 426),
        ("GET / HTTP/1.1", changed(Connection=None), 426),
        ("GET / HTTP/1.1", changed(Sec_WebSocket_Version=None), 426),
        ("GET / HTTP/1.1", changed(Sec_WebSocket_Version="7"), 426),
        ("GET / HTTP/1.1", changed(Sec_WebSocket_Key=None), 400),
        ("GET / HTTP/1.1", changed(Sec_WebSocket_Key="!"), 400),
        ("GET / HTTP/1.1", changed(Sec_WebSocket_Key="AAAA="), 400),
        ("GET / HTTP/1.1", changed(Sec_WebSocket_Key="\xe9"), 400),
        ("GET / HTTP/1.1", changed(Transfer_Encoding="chunked"), 400),
        ("GET / HTTP/1.1", changed(Content_Length="x"), 400),
        ("GET / HTTP/1.1", changed(Host=None), 400),
        ("GET / HTTP/1.1", changed(Host="evil.example"), 403),
        ("GET / HTTP/1.1", changed(Origin="https://evil.example"), 403),
        ("GET / HTTP/1.1", changed(Origin="null"), 403),
        ("GET / HTTP/1", HANDSHAKE, 400),
        ("GET / HTTP/x.y", HANDSHAKE, 400),
        ("nonsense", HANDSHAKE, 400),
        ("a b c d", HANDSHAKE, 400),
        ("\x16\x03\x01", HANDSHAKE, 400),
        ("GET /" + "x" * 9000 + " HTTP/1.1", HANDSHAKE, 414),
        ("GET / HTTP/1.1", changed(Long="x" * MAX_HEAD_BYTES), 400),
        ("GET / HTTP/1.1", {**HANDSHAKE, **{f"X-{i}": "y" for i in range(200)}}, 400),
        ("GET / HTTP/1.1\r\nno header\r\nX: y", HANDSHAKE, 426),
        ("GET / HTTP/1.1", {**HANDSHAKE, "X": "y\r\nno header\r\nOrigin: https://evil.example"}, 400),
    ],
)
def test_what_is_no_good_handshake_is_refused(
    start_server: Start,
    connect: Connect,
    capfd: pytest.CaptureFixture[str],
    line: str,
    headers: dict[str, str],
    status: int,
) -> None:
    """A status, the end of the connection, and not a word on stdout or stderr; the next client is served."""
    server = start_server()
    client = connect(server)
    assert client.request(line, headers) == status
    if status == 426:
        assert "upgrade: websocket" in client.headers
    client.file.read()
    assert connect(server).request() == 101
    assert capfd.readouterr() == ("", "")


def test_allowed_pages_and_names_are_let_in(start_server: Start, connect: Connect) -> None:
    """Exactly the origin, the name in any case."""
    server = start_server(allow_origins=["https://good.example"], allow_hosts=["Box.Example"])
    assert connect(server).request(headers=changed(Origin="https://good.example", Host="BOX.example:80")) == 101
    assert connect(server).request(headers=changed(Origin="https://good.example.", Host="box.example")) == 403


def test_the_path_is_not_logged(
    start_server: Start, connect: Connect, records: queue.Queue[logging.LogRecord]
) -> None:
    """It may hold a secret; the rest of the request is told at debug level."""
    server = start_server()
    assert connect(server).request("GET /?token=hush HTTP/1.1", {"Host": "x"}) == 426
    texts = [records.get(timeout=PATIENCE).getMessage()]
    while "426 Upgrade Required" not in texts[-1]:
        texts.append(records.get(timeout=PATIENCE).getMessage())
    assert "hush" not in "".join(texts)


# ---- limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beginning", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nUpg"])
def test_who_does_not_finish_the_request_is_dropped(start_server: Start, connect: Connect, beginning: bytes) -> None:
    """And only who does not: a websocket that is there longer lives on."""
    server = start_server(handshake_seconds=0.2)
    good = connect(server).upgraded()
    slow = connect(server)
    slow.socket.sendall(beginning)
    assert slow.is_at_end()
    good.send(b"alive")
    assert server.message() == b"alive"


def test_connections_above_the_limit_get_503(start_server: Start, connect: Connect) -> None:
    """Until one has ended."""
    server = start_server(config=ExecServerConfig(max_connections=1))
    first = connect(server).upgraded()
    assert connect(server).request() == 503
    first.close()
    while connect(server).request() != 101:
        pass


def test_a_full_server_accepts_nobody(hub: HubThread, connect: Connect) -> None:
    """Until there is room; its application finds what it was given beside the transport."""
    found: queue.Queue[object] = queue.Queue()

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        found.put(environ["test.key"])
        environ["wsgi.websocket"].receive(nothing)
        return []

    def start() -> WebSocketServer:
        listening = gevent.socket.socket(fileno=socket.create_server(("127.0.0.1", 0)).detach())
        environ = {"test.key": "value"}
        server = WebSocketServer(listening, application, ExecServerConfig(), Allowed(), max_open=1, environ=environ)
        server.start()
        return server

    server = hub.call(start)
    try:
        first, second = connect(server).upgraded(), connect(server)
        assert found.get(timeout=PATIENCE) == "value"
        first.send(b"", Opcode.PING)
        assert first.frame() == (True, Opcode.PONG, b"")
        assert hub.call(len, server.pool) == 1
        first.close()
        second.upgraded().close()
        assert found.get(timeout=PATIENCE) == "value"
    finally:
        hub.call(server.stop)
        hub.call(server.pool.join, PATIENCE)


def test_accepting_goes_on_after_a_lack_of_descriptors(
    start_server: Start, connect: Connect, records: queue.Queue[logging.LogRecord]
) -> None:
    """Who came meanwhile is served when there are some again."""
    server = start_server()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        client = socket.socket()
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        client.connect(server.address)
        record = records.get(timeout=PATIENCE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (record.levelname, "Too many open files" in record.getMessage()) == ("WARNING", True)
    client.settimeout(PATIENCE)
    client.sendall(b"GET / HTTP/1.0\r\n\r\n")
    assert client.recv(100).startswith(b"HTTP/1.1 426")
    client.close()


# ---- faults and the end ----------------------------------------------------------------------------------------------


def test_a_reset_in_the_handshake_leaves_no_trace(
    start_server: Start, connect: Connect, capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither of a half nor of a whole request."""
    server = start_server()
    for request in (b"GET / HTTP/1.1\r\nHo", b"GET / HTTP/1.1\r\n\r\n"):
        client = connect(server)
        client.socket.sendall(request)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    assert connect(server).request() == 101
    assert capfd.readouterr() == ("", "")


def test_a_bug_ends_one_connection(
    start_server: Start, connect: Connect, records: queue.Queue[logging.LogRecord]
) -> None:
    """It is logged with its traceback; others are served."""

    def serve(transport: Transport) -> None:
        if transport.receive(nothing) == b"bug":
            raise ZeroDivisionError

    server = start_server(serve=serve)
    client, other = connect(server).upgraded(), connect(server).upgraded()
    client.send(b"bug")
    assert client.close_code() == 1001
    assert client.is_at_end()
    record = records.get(timeout=PATIENCE)
    while record.levelno < logging.ERROR:
        record = records.get(timeout=PATIENCE)
    assert record.exc_info and record.exc_info[0] is ZeroDivisionError
    record.exc_info = None  # its frames hold the connection's socket
    other.send(b"", Opcode.PING)
    assert other.frame() == (True, Opcode.PONG, b"")


def test_stop_leaves_connections_alone(start_server: Start, connect: Connect, hub: HubThread) -> None:
    """Nobody new gets in, not even who was accepted already; twice is harmless."""
    server = start_server()
    old, waiting = connect(server).upgraded(), connect(server)
    waiting.socket.sendall(b"GET / HTTP/1.1\r\n")
    while hub.call(len, server.listener.pool) < 2:  # until it is accepted
        pass
    hub.call(server.listener.stop)
    hub.call(server.listener.stop)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(server.address)
    assert waiting.request("X: y") == 503
    old.send(b"after")
    assert server.message() == b"after"
