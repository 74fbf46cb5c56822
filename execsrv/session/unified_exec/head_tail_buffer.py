"""Output that is kept within a bound: how it began and how it ended."""

from __future__ import annotations

from dataclasses import dataclass

from execsrv.config import MIB

#: What is kept of a command's output: far more than a model reads, and 64 commands hold little.
RETAINED_BYTES = 1 * MIB


@dataclass(frozen=True, slots=True)
class RetainedOutput:
    """Output that lacks ``omitted_bytes`` between ``head`` and ``tail``."""

    head: bytes
    omitted_bytes: int = 0
    tail: bytes = b""

    @property
    def retained(self) -> bytes:
        """What is there of it."""
        return self.head + self.tail

    @property
    def total_bytes(self) -> int:
        """How much it was."""
        return len(self.head) + self.omitted_bytes + len(self.tail)


class HeadTailBuffer:
    """Keeps the first and the last half of ``max_bytes`` of what is appended, and counts what is between them.

    For one owner, who does the locking.
    """

    def __init__(self, max_bytes: int = RETAINED_BYTES) -> None:
        self._head_bytes = max_bytes // 2
        self._tail_bytes = max_bytes - self._head_bytes
        self._clear()

    def append(self, chunk: bytes) -> None:
        """Add ``chunk`` to the end."""
        room = self._head_bytes - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        excess = max(0, len(self._tail) - self._tail_bytes)
        del self._tail[:excess]
        self._omitted_bytes += excess

    def take(self) -> RetainedOutput:
        """Remove all there is, and return it."""
        taken = RetainedOutput(bytes(self._head), self._omitted_bytes, bytes(self._tail))
        self._clear()
        return taken

    def _clear(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._omitted_bytes = 0
