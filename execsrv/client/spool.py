"""A queue that stays small in memory: what does not fit goes to temporary files, up to a limit."""

from __future__ import annotations

import pickle
import tempfile
from collections import deque
from typing import IO, Generic, TypeVar

from execsrv.client.errors import OutputLost

T = TypeVar("T")

#: What one queue holds in memory: more than a window, so that files are the exception.
MEMORY_BYTES = 768 * 1024

#: What one queue holds on disk.
DISK_BYTES = 1024 * 1024 * 1024

#: What an item costs beyond its own bytes; keeps a flood of single bytes within MEMORY_BYTES.
ITEM_BYTES = 256

_LENGTH_BYTES = 4


class Spool(Generic[T]):
    """A queue of picklable items, for one owner who does the locking.

    When it is full, newer items are given up until it has been emptied; ``take`` raises OutputLost at the gap.
    """

    def __init__(self, memory_bytes: int = MEMORY_BYTES, disk_bytes: int = DISK_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._memory: deque[tuple[T, int]] = deque()
        self._in_memory = 0
        self._disk = _DiskQueue(disk_bytes)
        self._gap = False

    def __len__(self) -> int:
        return len(self._memory) + len(self._disk) + self._gap

    def put(self, item: T, size: int) -> None:
        """Append ``item``, which holds ``size`` bytes."""
        cost = size + ITEM_BYTES
        if self._gap:
            return
        if not self._disk and self._in_memory + cost <= self._memory_bytes:
            self._memory.append((item, cost))
            self._in_memory += cost
        else:
            self._gap = not self._disk.put(pickle.dumps(item, pickle.HIGHEST_PROTOCOL))

    def take(self) -> T:
        """Remove and return the oldest item.

        Raises OutputLost where items were given up; what was put later follows. IndexError when empty.
        """
        if self._memory:
            item, cost = self._memory.popleft()
            self._in_memory -= cost
            return item
        if self._disk:
            loaded: T = pickle.loads(self._disk.take())
            return loaded
        if self._gap:
            self._gap = False
            raise OutputLost
        raise IndexError("take from an empty spool")

    def close(self) -> None:
        """Forget everything and free the files."""
        self._memory.clear()
        self._in_memory = 0
        self._disk.close()
        self._gap = False


class _DiskQueue:
    """Byte strings in two unlinked files: one is read while the other grows, then they change places."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._reading: IO[bytes] | None = None
        self._writing: IO[bytes] | None = None
        self._to_read = 0
        self._to_swap = 0
        self._bytes = 0

    def __len__(self) -> int:
        return self._to_read + self._to_swap

    def put(self, data: bytes) -> bool:
        """Append ``data``. False when the limit, or the disk, allows no more."""
        frame = len(data).to_bytes(_LENGTH_BYTES, "big") + data
        if self._bytes + len(frame) > self._limit:
            return False
        try:
            if self._writing is None:
                self._writing = tempfile.TemporaryFile(buffering=0)
            if self._writing.write(frame) != len(frame):
                return False  # a part of a frame is never counted, so never read
        except OSError:
            return False
        self._to_swap += 1
        self._bytes += len(frame)
        return True

    def take(self) -> bytes:
        """Remove and return the oldest byte string of a queue that is not empty."""
        if not self._to_read:
            self._swap()
        assert self._reading
        length = int.from_bytes(self._reading.read(_LENGTH_BYTES), "big")
        data = self._reading.read(length)
        self._to_read -= 1
        self._bytes -= _LENGTH_BYTES + length
        if not self:
            self.close()
        return data

    def close(self) -> None:
        """Free both files."""
        for file in (self._reading, self._writing):
            if file:
                file.close()
        self._reading = self._writing = None
        self._to_read = self._to_swap = self._bytes = 0

    def _swap(self) -> None:
        if self._reading:
            self._reading.close()
        self._reading, self._writing = self._writing, None
        self._to_read, self._to_swap = self._to_swap, 0
        assert self._reading
        self._reading.seek(0)
