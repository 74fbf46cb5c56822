"""Messages as lines of bytes over two descriptors, such as the stdin and stdout of a server.

A read or write never waits in the system call itself but in poll(2), together with a pipe that ``abort`` closes: so
nobody is stuck when the connection ends, and under gevent's monkey patches only one greenlet waits.
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

    Both are descriptors, or binary files with one, and belong to the stream from now on. What the files' own buffers
    hold is not seen.
    """

    def __init__(self, read: Descriptor, write: Descriptor, max_message_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._read = read
        self._write: Descriptor | None = write
        self._stop_seen, stop = os.pipe()
        self._stop: int | None = stop
        self._stopping = threading.Lock()
        self._max_message_bytes = max_message_bytes

    def messages(self, poke: Callable[[], None]) -> Iterator[bytes]:
        """Yield the lines without their ends; blank ones are left out. See MessageStream."""
        fd = _fileno(self._read)
        start: list[bytes] = []
        size = 0
        while data := self._read_some(fd):
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
        if not message:
            return
        if self._write is None:
            raise BrokenPipeError("the stream was closed for writing")
        fd = _fileno(self._write)
        rest = memoryview(message + b"\n")
        while rest:
            if not self._wait(fd, "POLLOUT"):
                raise BrokenPipeError("the stream was aborted")
            with contextlib.suppress(BlockingIOError):
                rest = rest[os.write(fd, rest[:_WRITE_BYTES]) :]

    def finish(self) -> None:
        """Close the writing end, which a server takes for the end of the connection."""
        write, self._write = self._write, None
        if write is None:
            return
        _shut_down_socket(_fileno(write))
        if write is not self._read:
            _close(write)

    def abort(self) -> None:
        """Wake everyone. See MessageStream."""
        with self._stopping:
            stop, self._stop = self._stop, None
        if stop is not None:
            os.close(stop)

    def close(self) -> None:
        """Close all descriptors."""
        self.abort()
        with contextlib.suppress(OSError):
            self.finish()
        _close(self._read)
        os.close(self._stop_seen)

    def _read_some(self, fd: int) -> bytes:
        """The next bytes; b"" at the end."""
        while self._wait(fd, "POLLIN"):
            with contextlib.suppress(BlockingIOError):
                return os.read(fd, _READ_BYTES)
        return b""

    def _wait(self, fd: int, what: str) -> bool:
        """Wait until ``fd`` is ready; False when the stream was aborted. Where there is no poll, the call waits."""
        if not hasattr(select, "poll"):
            return self._stop is not None
        poll = select.poll()
        poll.register(fd, getattr(select, what))
        poll.register(self._stop_seen, select.POLLIN)
        ready = dict(poll.poll())
        return self._stop_seen not in ready


def _fileno(file: Descriptor) -> int:
    return file if isinstance(file, int) else file.fileno()


def _shut_down_socket(fd: int) -> None:
    """End the writing direction of a socket, which its other descriptors would keep open. A pipe needs nothing."""
    if stat.S_ISSOCK(os.fstat(fd).st_mode):
        with socket.socket(fileno=os.dup(fd)) as duplicate:
            duplicate.shutdown(socket.SHUT_WR)


def _close(file: Descriptor) -> None:
    if isinstance(file, int):
        os.close(file)
    else:
        file.close()
