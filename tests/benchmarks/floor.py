"""The floor: about the least that a Python server can do for the same work. Run it; it prints its URL.

One epoll loop, bare websocket frames, posix_spawn, pybase64 and orjson. It checks nothing, knows no session and
keeps no output, and leaves its processes to who kills it: a mark of how far a real server could come. Only what the
benchmarks ask for is there.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import select
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from stat import S_ISDIR, S_ISLNK, S_ISREG
from typing import Any, NoReturn

import orjson
import pybase64
from websockets.frames import apply_mask  # type: ignore[attr-defined]

#: Most bytes of a stream in one message, and of a socket in one read.
CHUNK_BYTES = 64 * 1024
READ_BYTES = 256 * 1024

#: With more than that to be sent, the connection's streams wait; nor does the kernel take more from us in advance.
QUEUE_BYTES = 128 * 1024
TCP_NOTSENT_LOWAT = 25  # socket.TCP_NOTSENT_LOWAT from Python 3.12 on

DEV_NULL = os.open("/dev/null", os.O_RDONLY)
WEBSOCKET_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3

epoll = select.epoll()
handlers: dict[int, Callable[[int], None]] = {}


def watch(fd: int, handler: Callable[[int], None], now: bool = True) -> None:
    """Call the handler with the events of a descriptor when it is readable; not ``now``: when it is resumed."""
    handlers[fd] = handler
    if now:
        epoll.register(fd, select.EPOLLIN)


def forget(fd: int) -> None:
    """Watch it no more, and close it, which also takes it out of the epoll set."""
    del handlers[fd]
    os.close(fd)


def header(size: int) -> bytes:
    """What stands before a text message of so many bytes (RFC 6455, section 5.2)."""
    if size < 126:
        return bytes((0x81, size))
    return struct.pack("!BBH", 0x81, 126, size) if size < 65536 else struct.pack("!BBQ", 0x81, 127, size)


class Connection:
    """A client, from its handshake to its end."""

    def __init__(self, sock: socket.socket) -> None:
        self.processes: dict[str, Process] = {}
        self.is_full = False
        self._fd = sock.detach()
        self._take = self._shake_hands
        self._input = bytearray()
        self._wanted = 0  # so many bytes of input make a message
        self._queue: deque[memoryview] = deque()
        self._queued = 0
        watch(self._fd, self._on_events)

    def answer(self, id: int, result: dict[str, Any]) -> None:
        """Send a result."""
        self.send(orjson.dumps({"id": id, "result": result}))

    def send(self, *parts: bytes) -> None:
        """Send a message, at once or after what waits already."""
        size = sum(map(len, parts))
        self.send_frames(header(size), *parts)

    def send_frames(self, *parts: bytes) -> None:
        """Send bytes as they are."""
        sent, size = 0, sum(map(len, parts))
        if not self._queue:
            sent = self._write(parts)
            if sent == size:
                return
            epoll.modify(self._fd, select.EPOLLIN | select.EPOLLOUT)
        self._queue.append(memoryview(b"".join(parts))[sent:])
        self._queued += size - sent
        if self._queued > QUEUE_BYTES and not self.is_full:
            self._hold(True)

    def _write(self, parts: Sequence[bytes | memoryview]) -> int:
        try:
            return os.writev(self._fd, parts)
        except (BlockingIOError, ConnectionError):  # reading finds out about the end
            return 0

    def _hold(self, is_full: bool) -> None:
        """Hold the streams back, or let them go on."""
        self.is_full = is_full
        for fd in [fd for process in self.processes.values() for fd in process.streams]:
            if is_full:
                epoll.unregister(fd)
            else:
                epoll.register(fd, select.EPOLLIN)

    def _on_events(self, events: int) -> None:
        if events & select.EPOLLOUT:
            self._send_queued()
        if events & ~select.EPOLLOUT:
            self._receive()

    def _send_queued(self) -> None:
        while self._queue:
            data = self._queue.popleft()
            sent = self._write([data])
            self._queued -= sent
            if sent < len(data):
                self._queue.appendleft(data[sent:])
                break
        else:
            epoll.modify(self._fd, select.EPOLLIN)
        if self.is_full and self._queued < QUEUE_BYTES // 2:
            self._hold(False)

    def _receive(self) -> None:
        try:
            data = os.read(self._fd, READ_BYTES)
        except ConnectionError:
            data = b""
        self._input += data
        if not data:
            self._end()
        elif len(self._input) >= self._wanted:
            self._take()

    def _end(self) -> None:
        forget(self._fd)
        self._queue.append(memoryview(b""))  # whatever is still said stays in the queue

    def _shake_hands(self) -> None:
        head, end, rest = bytes(self._input).partition(b"\r\n\r\n")
        key = re.search(rb"(?i)\nsec-websocket-key: *(\S+)", head)
        if end and key:
            self._input, self._take = bytearray(rest), self._take_messages
            accept = base64.b64encode(hashlib.sha1(key[1] + WEBSOCKET_GUID).digest())
            answer = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            self.send_frames(answer + b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")

    def _take_messages(self) -> None:
        data, at, self._wanted = self._input, 0, 0
        while at + 6 <= len(data):
            size, header = data[at + 1] & 127, 6
            if size >= 126:
                header = 8 if size == 126 else 14
                size = int.from_bytes(data[at + 2 : at + header - 4])
            begin, end = at + header, at + header + size
            if end > len(data):
                self._wanted = header + size
                break
            message = orjson.loads(apply_mask(data[begin:end], data[begin - 4 : begin]))
            if "id" in message:
                METHODS[message["method"]](self, message["id"], message["params"])
            at = end
        del data[:at]


class Process:
    """A child with its streams, from its start to the notification that it is closed."""

    def __init__(self, connection: Connection, id: int, params: dict[str, Any]) -> None:
        self.streams: dict[int, bytes] = {}
        self.stdin = DEV_NULL
        self._connection = connection
        self._id = params["processId"]
        self._seq = 0
        self._code: int | None = None
        self._pid = (self._spawn_on_terminal if params["tty"] else self._spawn_on_pipes)(params["argv"], params["env"])
        connection.answer(id, {"processId": self._id})
        for fd in self.streams:
            os.set_blocking(fd, False)
            watch(fd, partial(self._on_output, fd), now=not connection.is_full)
        connection.processes[self._id] = self
        self._pidfd = os.pidfd_open(self._pid)
        watch(self._pidfd, self._on_exit)

    def _spawn_on_pipes(self, argv: list[str], env: dict[str, str]) -> int:
        (out, child_out), (err, child_err) = os.pipe(), os.pipe()
        self.streams = {out: b"stdout", err: b"stderr"}
        actions = [(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate((DEV_NULL, child_out, child_err))]
        pid = os.posix_spawnp(argv[0], argv, env, file_actions=actions, setsid=True)
        os.close(child_out)
        os.close(child_err)
        return pid

    def _spawn_on_terminal(self, argv: list[str], env: dict[str, str]) -> int:
        self.stdin, end = os.openpty()
        self.streams = {self.stdin: b"pty"}
        copies = [(os.POSIX_SPAWN_DUP2, 0, target) for target in (1, 2)]
        actions = [(os.POSIX_SPAWN_OPEN, 0, os.ttyname(end), os.O_RDWR, 0), *copies]
        pid = os.posix_spawnp(argv[0], argv, env, file_actions=actions, setsid=True)
        os.close(end)
        return pid

    def _on_output(self, fd: int, _: int) -> None:
        if self._connection.is_full:  # by an event before this one
            return
        try:
            data = os.read(fd, CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:  # what a terminal says at its end
            data = b""
        if data:
            self._send(fd, data)
        else:
            del self.streams[fd]
            forget(fd)
            self._close_if_over()

    def _send(self, fd: int, data: bytes) -> None:
        self._seq += 1
        head = b'{"method":"process/output","params":{"processId":"%b","seq":%d,"stream":"%b","chunk":"'
        head %= (self._id.encode(), self._seq, self.streams[fd])
        self._connection.send(head, pybase64.b64encode(data), b'"}}')

    def _on_exit(self, _: int) -> None:
        forget(self._pidfd)
        self._code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        self._close_if_over()

    def _close_if_over(self) -> None:
        if self._code is None or self.streams:
            return
        del self._connection.processes[self._id]
        exited = {"processId": self._id, "seq": self._seq + 1, "exitCode": self._code}
        closed = {"processId": self._id, "seq": self._seq + 2}
        self._connection.send(orjson.dumps({"method": "process/exited", "params": exited}))
        self._connection.send(orjson.dumps({"method": "process/closed", "params": closed}))


def write(connection: Connection, id: int, params: dict[str, Any]) -> None:
    """``process/write``."""
    os.write(connection.processes[params["processId"]].stdin, pybase64.b64decode(params["chunk"]))
    connection.answer(id, {"accepted": True})


def get_metadata(connection: Connection, id: int, params: dict[str, Any]) -> None:
    """``fs/getMetadata``."""
    status = os.lstat(params["path"])
    kinds = {"isDirectory": S_ISDIR(status.st_mode), "isFile": S_ISREG(status.st_mode)}
    times = {"createdAtMs": 0, "modifiedAtMs": int(status.st_mtime * 1000)}
    connection.answer(id, {**kinds, "isSymlink": S_ISLNK(status.st_mode), "size": status.st_size, **times})


def read_file(connection: Connection, id: int, params: dict[str, Any]) -> None:
    """``fs/readFile``."""
    with open(params["path"], "rb") as file:
        encoded = pybase64.b64encode(file.read())
    connection.send(b'{"id":%d,"result":{"dataBase64":"' % id, encoded, b'"}}')


def write_file(connection: Connection, id: int, params: dict[str, Any]) -> None:
    """``fs/writeFile``."""
    with open(params["path"], "wb") as file:
        file.write(pybase64.b64decode(params["dataBase64"]))
    connection.answer(id, {})


def read_directory(connection: Connection, id: int, params: dict[str, Any]) -> None:
    """``fs/readDirectory``."""
    with os.scandir(params["path"]) as entries:
        listed = [
            {"fileName": entry.name, "isDirectory": entry.is_dir(), "isFile": entry.is_file()} for entry in entries
        ]
    connection.answer(id, {"entries": listed})


METHODS: dict[str, Callable[[Connection, int, dict[str, Any]], object]] = {
    "initialize": lambda connection, id, params: connection.answer(id, {"protocolVersion": "exec-server.v0"}),
    "process/start": Process,
    "process/write": write,
    "fs/getMetadata": get_metadata,
    "fs/readFile": read_file,
    "fs/writeFile": write_file,
    "fs/readDirectory": read_directory,
}


def accept(listener: socket.socket, _: int) -> None:
    """Take a connection."""
    sock, _address = listener.accept()
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, QUEUE_BYTES)
    Connection(sock)


def main() -> NoReturn:
    """Serve until killed."""
    os.chdir("/tmp")
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    watch(listener.fileno(), partial(accept, listener))
    print("ws://{}:{}".format(*listener.getsockname()), flush=True)
    while True:
        for fd, events in epoll.poll():
            if fd in handlers:  # or it was closed by an event before
                handlers[fd](events)


if __name__ == "__main__":
    main()
