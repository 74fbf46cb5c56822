"""Messages as lines of UTF-8 on two descriptors, and the care that a process's standard streams need."""

from __future__ import annotations

import fcntl
import os
import stat
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from execsrv.jsonrpc import Encoded
from execsrv.transports import MessageTooLarge
from execsrv.transports.descriptors import Sink, Source

#: Most bytes taken from the descriptor at once: what a pipe holds (pipe(7)).
READ_BYTES = 64 * 1024


class LineSplitter:
    """Cuts a stream of bytes into lines; pure. Looks at each byte once and holds no more than one line's limit.

    A line comes out without its line ending, one that is longer than ``max_bytes`` as None. Blank lines are left out.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._line = bytearray()
        self._too_long = False

    def feed(self, data: bytes) -> Iterator[bytes | None]:
        """The lines that end within ``data``."""
        *ended, rest = data.split(b"\n")
        for piece in ended:
            self._hold(piece)
            yield from self.finish()
        self._hold(rest)

    def finish(self) -> Iterator[bytes | None]:
        """What is held, as a line: at the end of the stream the last one may lack its line ending."""
        line, too_long = self._line, self._too_long
        self._line, self._too_long = bytearray(), False
        if line.endswith(b"\r"):
            del line[-1]
        if too_long or len(line) > self._max_bytes:
            yield None
        elif line and not line.isspace():
            yield bytes(line)

    def _hold(self, piece: bytes) -> None:
        self._too_long = self._too_long or len(self._line) + len(piece) > self._max_bytes + len(b"\r")
        if self._too_long:
            self._line.clear()
        else:
            self._line += piece


class StdioTransport:
    """A Transport over a descriptor to read from and one to write to; it owns both.

    Pipes and sockets are made nonblocking until they are closed; the flag is shared with whoever else holds them.
    """

    def __init__(self, read_fd: int, write_fd: int, max_message_bytes: int) -> None:
        self._read_end = _End(read_fd)
        self._write_end = _End(write_fd)
        self._source = Source(read_fd)
        self._sink = Sink(write_fd)
        self._splitter = LineSplitter(max_message_bytes)
        self._lines: deque[bytes | None] = deque()  # at most those of one read
        self._ended = False
        self._closed = False

    def receive(self, before_wait: Callable[[], object]) -> bytes | None:
        """The next line that is not blank; see Transport. A line above the limit is skipped as it comes in."""
        while not self._closed:
            if self._lines:
                line = self._lines.popleft()
                if line is None:
                    raise MessageTooLarge
                return line
            if self._ended:
                break
            before_wait()
            data = self._source.read(READ_BYTES)
            self._ended = not data
            self._lines.extend(self._splitter.feed(data) if data else self._splitter.finish())
        return None

    def send(self, messages: Sequence[Encoded]) -> None:
        """Write a line for each message; see Transport."""
        self._sink.write(_lines(messages))

    def send_now(self, messages: Sequence[Encoded]) -> bool:
        """Write lines as far as that needs no waiting; see Transport."""
        return self._sink.write_now(_lines(messages))

    def is_hung_up(self) -> bool:
        """Has the other end of the input been closed? See Transport."""
        return self._source.is_hung_up()

    def close(self) -> None:
        """Wake both directions and close both descriptors; see Transport."""
        if not self._closed:
            self._closed = True
            self._source.stop(self._read_end.close)
            self._sink.stop(self._write_end.close)


def _lines(messages: Sequence[Encoded]) -> list[bytes]:
    return [part for message in messages for part in (*message.parts, b"\n")]


class _End:
    """A descriptor that is ours to close; made nonblocking if it may be, and put back at the end."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        mode = os.fstat(fd).st_mode
        self._changed = os.get_blocking(fd) and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))
        if self._changed:
            os.set_blocking(fd, False)

    def close(self) -> None:
        if self._changed:
            os.set_blocking(self._fd, True)
        os.close(self._fd)


def claim_stdio() -> tuple[int, int]:
    """Take standard input and output for the protocol alone: the descriptors to read from and to write to.

    They are above 2 and close-on-exec, and the caller's to close. From then on descriptor 0 is at end of file and 1
    is another 2, so that no child and no stray ``print`` reaches the peer.
    """
    read_fd = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    write_fd = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return read_fd, write_fd


def seal_descriptors() -> None:
    """Open what is closed of descriptors 0, 1 and 2 on /dev/null, and mark all others close-on-exec.

    For the start of a daemon: those that it inherited would else reach every child.
    """
    for fd in (0, 1, 2):
        if not _is_open(fd):
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest free number: this one
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and _is_open(int(name)):
            os.set_inheritable(int(name), False)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
