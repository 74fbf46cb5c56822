"""Flow control of one process: how far its output may run ahead of the client."""

from __future__ import annotations

from collections import deque

from execsrv.server.condition import Condition

#: What an output counts for at least. A window is at most as large as what is retained, which so many chunks fit into.
LEAST_BYTES = 64


class Window:
    """Counts the output bytes that were sent and not yet acknowledged.

    ``size`` is the most that may be so, in bytes; None for no limit.
    """

    def __init__(self, size: int | None) -> None:
        self._size = size
        self._unacknowledged: deque[tuple[int, int]] = deque()
        self._bytes = 0
        self._changed = Condition()

    def room(self, wanted: int) -> int:
        """How many of ``wanted`` bytes may be sent now."""
        return wanted if self._size is None else max(0, min(wanted, self._size - self._bytes))

    @property
    def is_shut(self) -> bool:
        """May nothing be sent now?"""
        return self.room(1) < 1

    def wait(self) -> None:
        """While it is shut, wait until it may be open, or something else has changed."""
        if self.is_shut:
            self._changed.wait()

    def wake(self) -> None:
        """Let who waits look for himself."""
        self._changed.notify_all()

    def sent(self, seq: int, length: int) -> None:
        """Count an output of ``length`` bytes, a tiny one as LEAST_BYTES."""
        if self._size is not None:
            counted = max(length, LEAST_BYTES)
            self._unacknowledged.append((seq, counted))
            self._bytes += counted

    def acknowledge(self, seq: int) -> None:
        """The client has taken everything up to ``seq``."""
        before = self._bytes
        while self._unacknowledged and self._unacknowledged[0][0] <= seq:
            self._bytes -= self._unacknowledged.popleft()[1]
        if self._bytes < before:
            self.wake()

    def lift(self) -> None:
        """Count no more: whatever is left goes out."""
        self._size = None
        self._unacknowledged.clear()
        self.wake()
