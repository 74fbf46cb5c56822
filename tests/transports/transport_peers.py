"""What the transports' tests talk through: a hub on a thread of its own, a server on it, and a raw client."""

from __future__ import annotations

import gc
import queue
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import gevent
from gevent.hub import get_hub
from websockets.frames import Frame, Opcode, apply_mask

from execsrv.config import ExecServerConfig
from execsrv.jsonrpc import Encoded
from execsrv.transports import Transport
from execsrv.transports.listener import WebSocketListener

R = TypeVar("R")

#: Longest wait for anything, in seconds.
PATIENCE = 20

HANDSHAKE = {
    "Host": "127.0.0.1",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


def nothing() -> None:
    """What to do before a wait."""


def as_messages(*messages: bytes) -> list[Encoded]:
    """Messages for a transport."""
    return [Encoded(message) for message in messages]


class HubThread:
    """A native thread that runs a hub, so that a test may block while greenlets go on."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE)

    def submit(self, function: Callable[..., R], *args: Any) -> Future[R]:
        """Call ``function`` in a greenlet of the hub."""
        future: Future[R] = Future()

        def run() -> None:
            try:
                future.set_result(function(*args))
            except BaseException as error:  # the test sees it
                future.set_exception(error)

        self._loop.run_callback_threadsafe(gevent.spawn, run)
        return future

    def call(self, function: Callable[..., R], *args: Any) -> R:
        """Call ``function`` in a greenlet of the hub and wait for what it returns."""
        return self.submit(function, *args).result(PATIENCE)

    def end(self) -> None:
        """End the thread."""
        self._over.send()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        self._loop = get_hub().loop
        self._over = self._loop.async_()
        self._ready.set()
        get_hub().wait(self._over)
        gc.collect()  # sockets that only cycles hold belong to this hub
        get_hub().destroy(destroy_loop=True)


class Server:
    """A WebSocketListener on a hub thread. Without ``serve``, what connections receive goes to ``received``."""

    def __init__(
        self,
        hub: HubThread,
        serve: Callable[[Transport], None] | None = None,
        host: str = "127.0.0.1",
        config: ExecServerConfig = ExecServerConfig(),
        **options: Any,
    ) -> None:
        self.hub = hub
        self.transports: queue.Queue[Transport] = queue.Queue()
        self.received: queue.Queue[bytes | None] = queue.Queue()
        self._serve = serve or self._collect
        self.listener = hub.call(lambda: WebSocketListener(host, 0, self._take, config, **options))
        hub.call(self.listener.start)
        self.url = self.listener.url
        self.address = ("::1" if "[" in self.url else "127.0.0.1", int(self.url.rpartition(":")[2]))

    def end(self) -> None:
        """Stop; wait until all connections are over, as they are when their clients are closed."""
        self.hub.call(self.listener.stop)
        assert self.listener.pool is not None
        self.hub.call(self.listener.pool.join, PATIENCE)

    def transport(self) -> Transport:
        """The next connection's."""
        return self.transports.get(timeout=PATIENCE)

    def message(self) -> bytes | None:
        """The next message of any connection; None when one has ended."""
        return self.received.get(timeout=PATIENCE)

    def _take(self, transport: Transport) -> None:
        self.transports.put(transport)
        self._serve(transport)

    def _collect(self, transport: Transport) -> None:
        while (message := transport.receive(nothing)) is not None:
            self.received.put(message)
        self.received.put(None)


class RawClient:
    """A TCP client that writes what it is told, right or wrong."""

    def __init__(self, address: tuple[str, int], receive_buffer: int | None = None) -> None:
        self.socket = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
        self.socket.settimeout(PATIENCE)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(address)
        self.file = self.socket.makefile("rb")

    def request(self, line: str = "GET / HTTP/1.1", headers: dict[str, str] = HANDSHAKE, rest: bytes = b"") -> int:
        """Send a request and read the answer's head; its status. ``rest`` follows in the same packet."""
        head = "\r\n".join([line, *(f"{name}: {value}" for name, value in headers.items()), "", ""])
        self.socket.sendall(head.encode("latin-1") + rest)
        return self.status()

    def status(self) -> int:
        """Read the head of an answer; its status. ``self.headers`` are its header lines in lower case."""
        line = self.file.readline()
        self.headers = [header.strip().lower().decode() for header in iter(self.file.readline, b"\r\n")]
        return int(line.split()[1])

    def upgraded(self) -> RawClient:
        """Do the handshake."""
        assert self.request() == 101
        return self

    def send(self, payload: bytes, opcode: Opcode = Opcode.TEXT, fin: bool = True) -> None:
        """Send a correct frame."""
        self.socket.sendall(masked(payload, opcode, fin))

    def frame(self) -> tuple[bool, int, bytes] | None:
        """Read a frame: fin, opcode, payload; None at the end of the stream."""
        head = self.file.read(2)
        if len(head) < 2:
            return None
        length = head[1]
        if length > 125:
            length = int.from_bytes(self.file.read(2 if length == 126 else 8))
        return bool(head[0] & 0x80), head[0] & 0x0F, self.file.read(length)

    def close_code(self) -> int | None:
        """Read on to the close frame; its code. None when the stream ends without one."""
        while frame := self.frame():
            if frame[1] == Opcode.CLOSE:
                return int.from_bytes(frame[2][:2])
        return None

    def is_at_end(self) -> bool:
        """Wait for the server's end of the stream."""
        try:
            return self.file.read(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        """Close the socket."""
        self.file.close()
        self.socket.close()


#: Always the same, so that a test's name is.
MASK = b"mask"


def masked(payload: bytes, opcode: Opcode = Opcode.TEXT, fin: bool = True) -> bytes:
    """A client's frame."""
    plain = Frame(opcode, payload, fin=fin).serialize(mask=False)
    header = plain[: len(plain) - len(payload)]
    return bytes([header[0], header[1] | 0x80]) + header[2:] + MASK + apply_mask(payload, MASK)
