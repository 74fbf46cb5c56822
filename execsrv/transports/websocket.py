"""Messages over an upgraded websocket connection."""

from __future__ import annotations

import logging
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

import gevent
from gevent.event import Event
from gevent.lock import BoundedSemaphore
from gevent.pywsgi import WSGIHandler
from geventwebsocket.websocket import Stream, WebSocket
from websockets.frames import CloseCode, Opcode

from execsrv.jsonrpc import Encoded
from execsrv.transports import TransportClosed, frames
from execsrv.transports.descriptors import Sink, Source
from execsrv.transports.heartbeat import Heartbeat

log = logging.getLogger(__name__)

#: Most bytes taken from the socket at once.
READ_BYTES = 64 * 1024

#: How much TCP takes from us that it can't send yet (tcp(7)): more would only make answers wait behind output.
UNSENT_BYTES = 128 * 1024
_TCP_NOTSENT_LOWAT = 25  # socket.TCP_NOTSENT_LOWAT from Python 3.12 on

#: Longest wait, in seconds, for our close frame to leave, and for the peer's end of the stream after it.
CLOSE_SECONDS = 1.0

#: Seconds between two pings; a peer that is silent for two of them is dead.
PING_INTERVAL = 30.0


class WebSocketTransport(WebSocket):  # type: ignore[misc]  # gevent-websocket has no types
    """A Transport over the connection of ``handler``, which has answered the handshake and still owns the socket.

    Text and binary messages are taken alike; whether they are UTF-8 is for the reader of the message to say. Who
    breaks the rules of framing or exceeds the limit gets a close frame that says so. All writes that may wait go
    through one lock, piece by piece; a pong waits for the next gap, so that reading never waits for writing.
    """

    closed: bool

    def __init__(self, handler: WSGIHandler, max_message_bytes: int, ping_interval: float = PING_INTERVAL) -> None:
        super().__init__(None, Stream(handler), None)
        self.stream = self.raw_read = self.raw_write = None  # all bytes go through the source and the sink
        self._socket = handler.socket
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, UNSENT_BYTES)
        self._decoder = frames.Decoder(max_message_bytes)
        self._decoder.feed(handler.rfile.read1(READ_BYTES))  # frames that came together with the handshake
        self._source = Source(self._socket.fileno())
        self._sink = Sink(self._socket.fileno())
        self._pieces: deque[frames.Piece] = deque()  # of the messages that are being sent
        self._write_lock = BoundedSemaphore()
        self._pong = b""  # the latest one that is due; earlier ones need no answer (RFC 6455 section 5.5.3)
        self._keeper_has_work = Event()
        self._unused = Event()  # no greenlet waits for the socket, and none ever will
        self._heartbeat = Heartbeat(ping_interval, self._socket, self._source, self._sink)
        gevent.spawn(self._keep)

    def __del__(self) -> None:
        """Do nothing: the base class would write to a socket that is no longer ours."""

    def receive(self, before_wait: Callable[[], object]) -> bytes | None:
        """The next message; see Transport. A message above the limit closes the connection with code 1009."""
        while not self.closed:
            try:
                event = self._decoder.next_event()
            except frames.FrameError as error:
                log.debug("closing: %s", error)
                self._end(error.code)
                break
            if event is None:
                before_wait()
                self._read()
            elif event.opcode in (Opcode.TEXT, Opcode.BINARY):
                return event.payload
            else:
                self._take_control(event)
        return None

    def send(self, messages: Sequence[Encoded]) -> None:
        """Send each as a text message, in fragments when it is long; see Transport."""
        self._pieces.extend(frames.encode(messages))
        self._write([])  # first what ``send_now`` has left of a piece
        while self._pieces:
            if self.closed:
                raise TransportClosed("the connection is closed")
            self._write(self._pieces.popleft())

    def send_now(self, messages: Sequence[Encoded]) -> bool:
        """Send as far as that needs no waiting; see Transport."""
        self._pieces.extend(frames.encode(messages))
        if self.closed or self._write_lock.locked():
            return False
        while self._pieces:
            if not self._sink.write_now(self._with_pong(self._pieces.popleft())):
                return False
        return True

    def is_hung_up(self) -> bool:
        """Has the peer shut down its direction? See Transport."""
        return self.closed or self._source.is_hung_up()

    def close(self) -> None:
        """Say that we go away, if that can be said within CLOSE_SECONDS, and end both directions; see Transport."""
        self._end(CloseCode.GOING_AWAY)

    def linger(self) -> None:
        """Close, then let the peer finish; for the socket's owner, before it closes the socket.

        A socket closed with input unread resets the connection, and a reset may overtake our close frame.
        """
        self.close()
        self._unused.wait()  # another greenlet may be in the middle of closing
        with suppress(OSError):
            gevent.with_timeout(CLOSE_SECONDS, self._discard_input, timeout_value=None)

    def _read(self) -> None:
        data = self._source.read(READ_BYTES)
        if data:
            self._decoder.feed(data)
        else:
            self._end(None)

    def _discard_input(self) -> None:
        self._socket.setblocking(True)
        while self._socket.recv(READ_BYTES):
            pass

    def _take_control(self, event: frames.Event) -> None:
        if event.opcode == Opcode.PING:
            self._pong = frames.control_frame(Opcode.PONG, event.payload)
            self._keeper_has_work.set()
        elif event.opcode == Opcode.CLOSE:
            self._end(frames.reply_code(event.payload))

    def _write(self, piece: frames.Piece) -> None:
        with self._write_lock:
            self._sink.write(self._with_pong(piece))

    def _with_pong(self, piece: frames.Piece) -> frames.Piece:
        pong, self._pong = self._pong, b""
        return [pong, *piece] if pong else piece

    def _keep(self) -> None:
        """Send pongs that no other write takes along, and pings; end the connection when the peer is dead."""
        while not self.closed:
            self._keeper_has_work.clear()
            with suppress(TransportClosed):  # the reader finds out by itself
                if self._pong:
                    self._write([])
                if self._heartbeat.is_ping_due(time.monotonic()):
                    self._write([frames.control_frame(Opcode.PING)])
                    self._heartbeat.pinged(time.monotonic())
            if self._heartbeat.is_peer_dead(time.monotonic()):
                log.debug("closing: the peer is dead")
                self._end(None)
            self._keeper_has_work.wait(self._heartbeat.seconds_to_next_look(time.monotonic()))

    def _end(self, code: int | None) -> None:
        """Close with this code, or without a word; wake whoever uses the socket, and leave closing it to its owner."""
        if self.closed:
            return
        self.closed = True
        try:
            if code is not None:
                self._say_goodbye(code)
        finally:
            with suppress(OSError):  # the peer may have reset it
                self._socket.shutdown(socket.SHUT_WR)
            self._source.stop(lambda: self._sink.stop(self._unused.set))
            self._keeper_has_work.set()

    def _say_goodbye(self, code: int) -> None:
        with suppress(TransportClosed):
            gevent.with_timeout(CLOSE_SECONDS, self._write, [frames.close_frame(code)], timeout_value=None)
