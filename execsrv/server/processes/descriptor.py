"""One descriptor of ours, waited for as a greenlet."""

from __future__ import annotations

import array
import fcntl
import os
import select
import termios
from collections.abc import Callable
from functools import partial
from typing import Any

import gevent
from gevent.monkey import get_original

#: In a program that gevent has patched, ``os.close`` waits for the hub's next turn.
_close: Callable[[int], None] = get_original("os", "close")

READABLE, WRITABLE = 1, 2


class DescriptorClosed(Exception):
    """The descriptor was closed here while a greenlet waited for it."""


class Descriptor:
    """Owns ``fd``: a pipe's end, a terminal's master or a pidfd that nobody else uses. Never blocks the hub.

    ``close`` closes it in place of close(2).
    """

    def __init__(self, fd: int, close: Callable[[], object] | None = None) -> None:
        self.fd = fd
        self._close = close or partial(_close, fd)
        self.bytes_read = 0
        self._watchers: dict[int, Any] = {}
        os.set_blocking(fd, False)

    def wait_readable(self) -> None:
        """Wait until a read would not block. Raises DescriptorClosed."""
        self._wait(READABLE)

    def wait_writable(self) -> None:
        """Wait until a write would not block. Raises DescriptorClosed."""
        self._wait(WRITABLE)

    def when_readable(self, call: Callable[[], object]) -> None:
        """Call this once, on the hub, when a read would not block, unless it is closed before; needs no greenlet."""
        self._check_open()
        watcher = self._watchers[READABLE] = gevent.get_hub().loop.io(self.fd, READABLE)

        def once() -> None:
            watcher.stop()
            call()

        watcher.start(once)

    def read(self, limit: int) -> bytes | None:
        """Up to ``limit`` bytes of what is there: None when there is nothing now, ``b""`` at the end.

        Reads on until nothing is left, since a terminal gives less than it holds. Raises DescriptorClosed.
        """
        pieces: list[bytes] = []
        left = limit
        while left and (piece := self._read_piece(left)):
            pieces.append(piece)
            left -= len(piece)
        if not pieces:
            return piece if left else None
        self.bytes_read += limit - left
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def write(self, data: memoryview) -> int:
        """Write what fits now and return its length. Raises DescriptorClosed; OSError when nobody reads any more."""
        self._check_open()
        try:
            return os.write(self.fd, data)
        except BlockingIOError:
            return 0

    def is_at_end(self) -> bool:
        """Has everybody closed the other side, and is nothing left to read? Raises DescriptorClosed."""
        self._check_open()
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        return any(events & select.POLLHUP and not events & select.POLLIN for _, events in poll.poll(0))

    def pending(self) -> int:
        """Bytes that a pipe holds (FIONREAD, ioctl_pipe(2)). Raises DescriptorClosed."""
        self._check_open()
        count = array.array("i", [0])
        fcntl.ioctl(self.fd, termios.FIONREAD, count)
        return count[0]

    def close(self) -> None:
        """Wake who waits with DescriptorClosed, then close; twice is harmless."""
        if self.fd < 0:
            return
        self.fd = -1
        # Closed behind the cancellations: libev aborts when a descriptor vanishes under a watcher.
        watchers = list(self._watchers.values())
        gevent.get_hub().cancel_waits_close_and_then(watchers, DescriptorClosed, self._close)

    def _read_piece(self, limit: int) -> bytes | None:
        self._check_open()
        try:
            return os.read(self.fd, limit)
        except BlockingIOError:
            return None
        except OSError:  # EIO: nobody holds the terminal's other side any more
            return b""

    def _check_open(self) -> None:
        if self.fd < 0:
            raise DescriptorClosed

    def _wait(self, events: int) -> None:
        self._check_open()
        hub = gevent.get_hub()
        if events not in self._watchers:
            self._watchers[events] = hub.loop.io(self.fd, events)
        hub.wait(self._watchers[events])
