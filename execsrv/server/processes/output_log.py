"""The newest output of a process, kept for clients that poll."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from execsrv.protocol.common import StreamName
from execsrv.protocol.processes import RetainedChunk

#: A chunk costs memory of its own, also one of a single byte: that is bounded too.
MAX_CHUNKS = 16 * 1024
CHUNK_OVERHEAD_BYTES = 128


@dataclass(slots=True)
class Reading:
    """What a read of the log found: its chunks, and whether output that it asked for is gone."""

    chunks: list[RetainedChunk]
    truncated: bool


@dataclass(slots=True)
class OutputLog:
    """Whole chunks, oldest dropped first once they are more than ``capacity`` bytes, or MAX_CHUNKS, together.

    dropped_bytes: how much was dropped so far; dropped_seq: the last seq among it, 0 for none.
    """

    capacity: int
    size: int = 0
    dropped_bytes: int = 0
    dropped_seq: int = 0
    _chunks: deque[RetainedChunk] = field(default_factory=deque)

    def append(self, chunk: RetainedChunk) -> None:
        """Keep ``chunk``, the newest, and drop the oldest that no longer fit beside it."""
        self._chunks.append(chunk)
        self.size += len(chunk.chunk)
        while (self.size > self.capacity or len(self._chunks) > MAX_CHUNKS) and len(self._chunks) > 1:
            oldest = self._chunks.popleft()
            self.size -= len(oldest.chunk)
            self.dropped_bytes += len(oldest.chunk)
            self.dropped_seq = oldest.seq

    @property
    def cost(self) -> int:
        """What it counts for in bytes: its output or, where that is larger, what so many chunks take."""
        return max(self.size, CHUNK_OVERHEAD_BYTES * len(self._chunks))

    def first_seq(self, next_seq: int) -> int:
        """The seq of the oldest chunk; ``next_seq`` when nothing is kept."""
        return self._chunks[0].seq if self._chunks else next_seq

    def joined(self, stream: StreamName) -> bytes:
        """What is kept of one stream."""
        return b"".join(chunk.chunk for chunk in self._chunks if chunk.stream == stream)

    def read(self, after_seq: int, max_bytes: int | None) -> Reading:
        """Chunks with a greater seq, oldest first, until ``max_bytes``: at least one when there is any."""
        chunks: list[RetainedChunk] = []
        size = 0
        for chunk in self._chunks:
            if chunk.seq <= after_seq:
                continue
            size += len(chunk.chunk)
            if chunks and max_bytes is not None and size > max_bytes:
                break
            chunks.append(chunk)
        return Reading(chunks, truncated=self.dropped_seq > after_seq)
