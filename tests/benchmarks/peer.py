"""A plain client for measuring: it sends what was made ready, counts output and waits for answers."""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self, TypeAlias
from urllib.parse import urlsplit

import orjson
import pybase64

from .receiver import PeerError, Receiver
from .servers import Server

Json: TypeAlias = dict[str, Any]

#: Longest wait for a server to say anything, or to take anything, in seconds.
PATIENCE = 20

#: The environment of every process: as many variables as a shell usually has.
ENVIRONMENT = {
    **{"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "TERM": "xterm", "SHELL": "/bin/sh"},
    **{f"BENCHMARK_VARIABLE_{number}": f"/usr/lib/some/where/{number}:" * (number % 3 + 1) for number in range(35)},
}

_ANSWER = b'{"id":'
_OUTPUT = b'{"method":"process/output"'
_CLOSED = b'{"method":"process/closed"'
_ERROR = b'"error":'


class Peer:
    """A connection; a context manager.

    output_bytes, outputs: what has come of all processes, decoded, and in how many notifications.
    output: the bytes themselves, if ``keeps_output``.
    closed: the processes of which ``process/closed`` has come.
    """

    def __init__(
        self,
        server: Server,
        *,
        acknowledges_at_once: bool = False,
        buffer_bytes: int = 0,
        keeps_output: bool = False,
    ) -> None:
        """Connect; entering the context opens the conversation.

        acknowledges_at_once: whether TCP tells the server at once what has come (tcp(7), TCP_QUICKACK), which makes
            up for a server without TCP_NODELAY.
        buffer_bytes: for SO_RCVBUF; 0: the system's default.
        """
        self.spec = server.spec
        self.output_bytes = self.outputs = self._answers = 0
        self.output = bytearray()
        self.closed: set[str] = set()
        self.socket = _connect(server.url, buffer_bytes)
        self.receiver = Receiver(self.socket)
        if acknowledges_at_once:
            self.receiver.before_receive = partial(self.socket.setsockopt, socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        self._keeps_output = keeps_output
        self._last_id = 0

    def __enter__(self) -> Self:
        self.call("initialize", {"clientName": "benchmarks"})
        self.send(_frame(b'{"method":"initialized","params":{}}'))
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    # ---- out -------------------------------------------------------------------------------------------------------

    def request(self, method: str, params: Json) -> tuple[int, bytes]:
        """A request made ready: its id, and what to ``send``."""
        self._last_id += 1
        message = orjson.dumps({"id": self._last_id, "method": method, "params": params})
        return self._last_id, _frames(message, self.spec.max_frame_bytes)

    def start_request(self, process_id: str, argv: Sequence[str], tty: bool = False) -> tuple[int, bytes]:
        """A ``process/start`` made ready."""
        where = {"cwd": self.spec.path("/tmp"), "env": ENVIRONMENT, "tty": tty, "arg0": None}
        return self.request("process/start", {"processId": process_id, "argv": argv, **where})

    def metadata_request(self) -> tuple[int, bytes]:
        """A ``fs/getMetadata`` made ready: of a directory that is always there."""
        return self.request("fs/getMetadata", {"path": self.spec.path("/tmp")})

    def send(self, data: bytes) -> None:
        """Send what was made ready."""
        self.socket.sendall(data)

    # ---- in --------------------------------------------------------------------------------------------------------

    def next(self) -> bytes:
        """The next message, waited for; of output, which is counted, only that it came: empty.

        Raises PeerError if it is an error, since no request ought to fail.
        """
        data, begin, end = self.receiver.next()
        if data.startswith(_OUTPUT, begin):
            self._count_output(data, begin)
            return b""
        message = bytes(data[begin:end])
        if message.startswith(_ANSWER):
            self._answers += 1
            if _ERROR in message[:32]:
                raise PeerError(message[:500].decode())
        elif message.startswith(_CLOSED):
            self.closed.add(orjson.loads(message)["params"]["processId"])
        return message

    def _count_output(self, data: bytearray, at: int) -> None:
        begin = data.index(b'"chunk":"', at) + len(b'"chunk":"')
        end = data.index(b'"', begin)
        self.outputs += 1
        self.output_bytes += (end - begin) // 4 * 3 - data.count(b"=", end - 2, end)
        if self._keeps_output:
            self.output += pybase64.b64decode(data[begin:end], validate=True)

    def answer(self, id: int) -> bytes:
        """The answer to a request, waited for."""
        prefix = b'{"id":%d,' % id
        while not (message := self.next()).startswith(prefix):
            pass
        return message

    def wait_closed(self, process_id: str) -> None:
        """Wait until a process is closed."""
        while process_id not in self.closed:
            self.next()

    def be_patient_for(self, seconds: int) -> None:
        """Wait so long, not longer, for the server to say anything; then PeerError is raised."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _timeval(seconds))

    def read_for(self, seconds: float) -> None:
        """Take what comes for a while."""
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            if not self.receiver.is_empty or select.select([self.socket], [], [], left)[0]:
                self.next()

    # ---- both ------------------------------------------------------------------------------------------------------

    def call(self, method: str, params: Json) -> Json:
        """Ask, and wait for the result."""
        id, data = self.request(method, params)
        self.send(data)
        result: Json = orjson.loads(self.answer(id))["result"]
        return result

    def timed(self, request: tuple[int, bytes]) -> float:
        """Send a request; the seconds until its answer came."""
        id, data = request
        begun = time.perf_counter()
        self.send(data)
        self.answer(id)
        return time.perf_counter() - begun

    def start(self, process_id: str, argv: Sequence[str], tty: bool = False) -> float:
        """Start a process; the seconds until the answer came."""
        return self.timed(self.start_request(process_id, argv, tty))

    def send_all(self, requests: Sequence[tuple[int, bytes]], depth: int, done: Callable[[], int]) -> float:
        """Send requests, at most ``depth`` more than are done, until all are done; the seconds that it took."""
        frames = [data for _, data in requests]
        sent, before = 0, done()
        begun = time.perf_counter()
        while (finished := done() - before) < len(frames):
            if sent < finished + depth:
                self.send(b"".join(frames[sent : finished + depth]))
                sent = finished + depth
            self.next()
        return time.perf_counter() - begun

    def count_answers(self) -> int:
        """How many answers have come."""
        return self._answers

    def count_closed(self) -> int:
        """How many processes are closed."""
        return len(self.closed)


def _connect(url: str, buffer_bytes: int) -> socket.socket:
    """A socket behind a websocket's handshake (RFC 6455, section 4.1)."""
    parts = urlsplit(url)
    sock = socket.socket()
    try:
        if buffer_bytes:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            sock.setsockopt(socket.SOL_SOCKET, option, _timeval(PATIENCE))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.connect((parts.hostname, parts.port))
        _upgrade(sock, parts.netloc)
    except BaseException:
        sock.close()
        raise
    return sock


def _timeval(seconds: int) -> bytes:
    return struct.pack("ll", seconds, 0)


def _upgrade(sock: socket.socket, host: str) -> None:
    """Become a websocket. A server says nothing more of its own accord, so all that comes is its answer."""
    key = pybase64.b64encode(os.urandom(16)).decode()
    fields = f"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
    sock.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n".encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        more = sock.recv(4096)
        if not more:
            break
        answer += more
    if not answer.startswith(b"HTTP/1.1 101"):
        raise PeerError(f"no websocket: {answer!r}")


def _frames(message: bytes, longest: int) -> bytes:
    """A message as a client sends it, in fragments of at most ``longest`` bytes."""
    frames = []
    for at in range(0, len(message), longest):
        opcode = 0 if at else 1
        is_last = at + longest >= len(message)
        frames.append(_frame(message[at : at + longest], opcode | (0x80 if is_last else 0)))
    return b"".join(frames)


def _frame(payload: bytes, first: int = 0x81) -> bytes:
    """A frame with a mask of zeros, which the server has to apply like any other."""
    size = len(payload)
    if size < 126:
        header = struct.pack("!BB", first, 0x80 | size)
    elif size < 65536:
        header = struct.pack("!BBH", first, 0xFE, size)
    else:
        header = struct.pack("!BBQ", first, 0xFF, size)
    return header + bytes(4) + payload
