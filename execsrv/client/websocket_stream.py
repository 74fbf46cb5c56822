"""Messages over a websocket (RFC 6455), with the protocol of the ``websockets`` library and plain blocking calls.

The library's own connection would hold one lock while it sends and while it receives: a server that waits for us to
read before it reads on would never get anywhere.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, InvalidURI
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.uri import WebSocketURI, parse_uri

from execsrv.client.deadline import Deadline
from execsrv.client.errors import ClosedError, ConnectError, ConnectTimeout
from execsrv.client.stdio_stream import MAX_MESSAGE_BYTES
from execsrv.config import MIB

#: Silence, in seconds, after which the server is asked for a sign of life; after twice as much it counts as dead.
PING_SECONDS = 30.0

#: Longest frame sent: a pong can get out between two.
FRAME_BYTES = 1 * MIB

#: Control frames that wait to be sent while the server does not read.
MAX_OUTGOING = 1000

_READ_BYTES = 256 * 1024

#: A socket's timeout of 0 would mean that it never waits.
_NO_TIME = 0.001

_DATA = (Opcode.TEXT, Opcode.BINARY, Opcode.CONT)


class WebSocketStream:
    """A websocket connection that is open; made by ``open_websocket``. See MessageStream."""

    def __init__(self, sock: socket.socket, protocol: ClientProtocol, ping_seconds: float = PING_SECONDS) -> None:
        self._socket = sock
        self._socket.settimeout(ping_seconds)
        self._protocol = protocol
        self._mutex = threading.Lock()  # of the protocol and of what it wants to be sent; never held while waiting
        self._outgoing: list[bytes] = []
        self._poke: Callable[[], None] = lambda: None

    def messages(self, poke: Callable[[], None]) -> Iterator[bytes]:
        """Yield whole messages, text and binary alike. See MessageStream."""
        self._poke = poke
        fragments: list[bytes] = []
        for frame in self._frames():
            fragments.append(bytes(frame.data))
            if frame.fin:
                yield fragments[0] if len(fragments) == 1 else b"".join(fragments)
                fragments = []

    def send(self, message: bytes) -> None:
        """Send one text message, a long one in several frames."""
        if message:
            fragments = [message[i : i + FRAME_BYTES] for i in range(0, len(message), FRAME_BYTES)]
            for number, fragment in enumerate(fragments, 1):
                self._send_fragment(fragment, first=number == 1, last=number == len(fragments))
        else:
            self._flush()

    def finish(self) -> None:
        """Begin the closing handshake."""
        with self._mutex:
            if self._protocol.state is State.OPEN:
                self._protocol.send_close(1000)
                self._outgoing += self._protocol.data_to_send()
        self._flush()

    def abort(self) -> None:
        """Shut the socket down, which wakes everyone."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _frames(self) -> Iterator[Frame]:
        """Yield the data frames until the server closes the connection. Raises ClosedError with the reason."""
        yield from self._take_frames()  # those that came along with the handshake
        while not self._is_over():
            data = self._receive()
            with self._mutex:
                if data:
                    self._protocol.receive_data(data)
                else:
                    self._protocol.receive_eof()
            yield from self._take_frames()
        raise ClosedError(self._why_closed())

    def _receive(self) -> bytes:
        """The next bytes. Raises ClosedError when nothing comes, though the server was asked for a sign of life."""
        for asked in (False, True):
            try:
                return self._socket.recv(_READ_BYTES)
            except TimeoutError:
                if not asked:
                    self._ping()
        raise ClosedError("the server is silent")

    def _ping(self) -> None:
        with self._mutex:
            self._protocol.send_ping(b"")
            self._outgoing += self._protocol.data_to_send()
        self._poke()

    def _take_frames(self) -> list[Frame]:
        """The data frames that have arrived; the answers to the others are made ready."""
        with self._mutex:
            events = self._protocol.events_received()
            self._outgoing += self._protocol.data_to_send()
        if len(self._outgoing) > MAX_OUTGOING:
            raise ClosedError("the server sends pings and does not read the pongs")
        if self._outgoing:
            self._poke()
        return [event for event in events if isinstance(event, Frame) and event.opcode in _DATA]

    def _is_over(self) -> bool:
        """Has the server ended the connection, or broken the protocol?"""
        protocol = self._protocol
        return protocol.state is State.CLOSED or bool(protocol.close_rcvd or protocol.parser_exc)

    def _why_closed(self) -> str:
        error = self._protocol.parser_exc
        if self._protocol.close_rcvd:
            return f"the server closed the websocket: {self._protocol.close_rcvd}"
        if error and not isinstance(error, EOFError):
            return f"the server broke the websocket protocol: {error}"
        return "the server closed the connection"

    def _send_fragment(self, fragment: bytes, first: bool, last: bool) -> None:
        with self._mutex:
            if self._protocol.state is not State.OPEN:
                raise BrokenPipeError("the websocket is closed")
            if first:
                self._protocol.send_text(fragment, fin=last)
            else:
                self._protocol.send_continuation(fragment, fin=last)
            self._outgoing += self._protocol.data_to_send()
        self._flush()

    def _flush(self) -> None:
        """Send what the protocol has ready. Only one thread does this, or frames would get mixed up."""
        with self._mutex:
            outgoing, self._outgoing = self._outgoing, []
        for data in outgoing:
            _send_all(self._socket, data)


def open_websocket(url: str, timeout: float, ping_seconds: float = PING_SECONDS) -> WebSocketStream:
    """Connect to ``ws://HOST:PORT`` within ``timeout`` seconds.

    Raises ConnectTimeout, or ConnectError when the URL is none, nobody listens there or the server refuses.
    """
    deadline = Deadline(timeout)
    try:
        uri = parse_uri(url)
        if uri.secure:
            raise ConnectError(url, "only ws:// is supported; lead TLS through a tunnel")
        return WebSocketStream(*_connect(uri, deadline), ping_seconds)
    except TimeoutError:
        raise ConnectTimeout(url, timeout) from None
    except (InvalidURI, InvalidHandshake, OSError, EOFError, ValueError) as error:
        raise ConnectError(url, str(error)) from error


def _connect(uri: WebSocketURI, deadline: Deadline) -> tuple[socket.socket, ClientProtocol]:
    sock = socket.create_connection((uri.host, uri.port), deadline.remaining() or _NO_TIME)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        protocol = ClientProtocol(uri, max_size=MAX_MESSAGE_BYTES)
        _shake_hands(sock, protocol, deadline)
        return sock, protocol
    except BaseException:
        sock.close()
        raise


def _shake_hands(sock: socket.socket, protocol: ClientProtocol, deadline: Deadline) -> None:
    """Upgrade the connection. Raises InvalidHandshake, EOFError or OSError, which TimeoutError is too."""
    protocol.send_request(protocol.connect())
    for data in protocol.data_to_send():
        _send_all(sock, data)
    while protocol.state is State.CONNECTING and not protocol.handshake_exc:
        sock.settimeout(deadline.remaining() or _NO_TIME)
        data = sock.recv(_READ_BYTES)
        if data:
            protocol.receive_data(data)
        else:
            protocol.receive_eof()
    if protocol.handshake_exc:
        raise protocol.handshake_exc


def _send_all(sock: socket.socket, data: bytes) -> None:
    """Send ``data``, however long the server makes us wait: whether it is alive, the reading side judges."""
    rest = memoryview(data)
    while rest:
        with contextlib.suppress(TimeoutError):
            rest = rest[sock.send(rest) :]
