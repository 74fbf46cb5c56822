"""Messages as lines of bytes over two descriptors, such as the stdin and stdout of a server.

A read or write never waits in the system call itself but in poll(2), together with a pipe that ``abort`` writes to:
so nobody is stuck when the connection ends, and under gevent's monkey patches only one greenlet waits.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from typing import IO, Protocol, TypeAlias

from execsrv.client.errors import ProtocolError
from execsrv.config import MIB

#: Longest message taken from a server. Servers of this project send at most 64 MiB unless told otherwise.
MAX_MESSAGE_BYTES = 128 * MIB

_READ_BYTES = 256 * 1024

#: Bytes that a pipe takes without waiting once it is writable (pipe(7)).
_WRITE_BYTES = getattr(select, "PIPE_BUF", 4096)

Descriptor: TypeAlias = int | IO[bytes]


class MessageStream(Protocol):
    """A way to and from a server. One thread reads, one writes, any may abort; who waited for both closes."""

    def messages(self, poke: Callable[[], None]) -> Iterator[bytes]:
        """Yield what the server sends until its end.

        ``poke`` is called when the stream has something to say on its own, which ``send(b"")`` lets out. Raises
        ClosedError, or a kind of it, with the reason for the end if there is more to say about it, and OSError.
        """

    def send(self, message: bytes) -> None:
        """Send one message, or nothing but what the stream itself has to say. Raises OSError."""

    def finish(self) -> None:
        """Tell the server that nothing more will be sent. Raises OSError."""

    def abort(self) -> None:
        """Wake who reads or writes; nothing more is possible. Twice is harmless."""

    def close(self) -> None:
        """Free the descriptors."""


class StdioStream:
    """Lines that are read from ``read`` and written to ``write``.

    Both are descriptors, or binary files with one, and belong to the stream from now on. What the files' own
    buffers hold is not seen.
    """

    def __init__(self, read: Descriptor, write: Descriptor, max_message_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._read = _file(read, "rb")
        self._write = _file(write, "wb")
        self._finished = False
        stop_seen, stop = os.pipe()
        self._stop_seen = _file(stop_seen, "rb")
        self._stop = _file(stop, "wb")
        self._stop_lock = threading.Lock()
        self._max_message_bytes = max_message_bytes

    def messages(self, poke: Callable[[], None]) -> Iterator[bytes]:
        """Yield the lines without their ends; blank ones are left out. See MessageStream."""
        start: list[bytes] = []
        size = 0
        while data := self._read_some():
            *ends, rest = data.split(b"\n")
            for end in ends:
                line = b"".join([*start, end]).rstrip(b"\r")
                start, size = [], 0
                if line:
                    yield line
            start.append(rest)
            size += len(rest)
            if size > self._max_message_bytes:
                raise ProtocolError(f"the server sent a line of more than {self._max_message_bytes} bytes")

    def send(self, message: bytes) -> None:
        """Write ``message`` as one line."""
        if self._finished:
            raise BrokenPipeError("the stream was closed for writing")
        rest = memoryview(message + b"\n" if message else b"")
        while rest:
            if not self._wait(self._write, "POLLOUT"):
                raise BrokenPipeError("the stream was aborted")
            with contextlib.suppress(BlockingIOError):
                rest = rest[os.write(self._write.fileno(), rest[:_WRITE_BYTES]) :]

    def finish(self) -> None:
        """Close the writing end, which a server takes for the end of the connection."""
        if not self._finished:
            self._finished = True
            _shut_down_socket(self._write.fileno())
            if self._write is not self._read:
                self._write.close()

    def abort(self) -> None:
        """Wake everyone. See MessageStream."""
        with self._stop_lock:
            if not self._stop.closed:
                self._stop.write(b"!")

    def close(self) -> None:
        """Close all descriptors."""
        with contextlib.suppress(OSError):
            self.finish()
        with self._stop_lock:
            self._stop.close()
        self._stop_seen.close()
        self._read.close()

    def _read_some(self) -> bytes:
        """The next bytes; b"" at the end."""
        while self._wait(self._read, "POLLIN"):
            with contextlib.suppress(BlockingIOError):
                return os.read(self._read.fileno(), _READ_BYTES)
        return b""

    def _wait(self, file: IO[bytes], what: str) -> bool:
        """Wait until ``file`` is ready; False if the stream was aborted. Where there is no poll, the call waits."""
        if not hasattr(select, "poll"):
            return True
        poll = select.poll()
        poll.register(file.fileno(), getattr(select, what))
        poll.register(self._stop_seen.fileno(), select.POLLIN)
        return self._stop_seen.fileno() not in dict(poll.poll())


def _file(descriptor: Descriptor, mode: str) -> IO[bytes]:
    """An owner for a descriptor, who closes it at once: gevent's ``os.close`` would wait for its loop to turn."""
    return open(descriptor, mode, buffering=0) if isinstance(descriptor, int) else descriptor


def _shut_down_socket(fd: int) -> None:
    """End the writing direction of a socket, which its other descriptors would keep open. A pipe needs nothing."""
    if stat.S_ISSOCK(os.fstat(fd).st_mode):
        with socket.socket(fileno=os.dup(fd)) as duplicate:
            duplicate.shutdown(socket.SHUT_WR)
