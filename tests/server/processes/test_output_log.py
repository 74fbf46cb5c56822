"""What is kept of a process's output."""

from __future__ import annotations

import pytest

from execsrv.protocol.processes import RetainedChunk
from execsrv.server.processes.output_log import OutputLog


def make_log(capacity: int, *chunks: bytes) -> OutputLog:
    """A log of chunks with the seqs 1, 2, 3..."""
    log = OutputLog(capacity)
    for seq, chunk in enumerate(chunks, start=1):
        log.append(RetainedChunk(seq, "stdout", chunk))
    return log


def seqs(log: OutputLog, after_seq: int = 0, max_bytes: int | None = None) -> list[int]:
    """The seqs that a read finds."""
    return [chunk.seq for chunk in log.read(after_seq, max_bytes).chunks]


def test_an_empty_log_has_nothing() -> None:
    """Its first seq is the one to come."""
    log = make_log(10)
    assert seqs(log) == [] and not log.read(0, None).truncated
    assert log.first_seq(next_seq=4) == 4


def test_the_oldest_whole_chunks_are_dropped() -> None:
    """The newest stay up to the capacity; what is gone is counted."""
    log = make_log(10, b"aaaa", b"bbbb", b"cc", b"dd")
    assert seqs(log) == [2, 3, 4]
    assert (log.size, log.dropped_bytes, log.dropped_seq, log.first_seq(5)) == (8, 4, 1, 2)


def test_a_full_log_drops_nothing() -> None:
    """The capacity itself fits."""
    assert make_log(8, b"aaaa", b"bbbb").dropped_bytes == 0


def test_a_chunk_above_the_capacity_is_kept_alone() -> None:
    """The newest is there whatever its size."""
    log = make_log(3, b"a", b"bbbb")
    assert seqs(log) == [2] and (log.size, log.dropped_bytes) == (4, 1)


def test_a_read_begins_after_a_seq() -> None:
    """Seqs of exits and closes leave gaps that do not matter."""
    log = OutputLog(100)
    for seq in (2, 3, 7):
        log.append(RetainedChunk(seq, "pty", b"x"))
    assert [seqs(log, after) for after in (0, 1, 2, 3, 6, 7, 99)] == [[2, 3, 7], [2, 3, 7], [3, 7], [7], [7], [], []]


@pytest.mark.parametrize("max_bytes, expected", [(None, [1, 2, 3]), (6, [1, 2, 3]), (5, [1, 2]), (3, [1]), (0, [1])])
def test_a_read_stops_before_too_many_bytes(max_bytes: int | None, expected: list[int]) -> None:
    """But returns one chunk at least."""
    assert seqs(make_log(100, b"aa", b"bb", b"cc"), 0, max_bytes) == expected


@pytest.mark.parametrize("after_seq, truncated", [(0, True), (1, True), (2, False), (3, False)])
def test_a_read_tells_whether_something_it_asked_for_is_gone(after_seq: int, truncated: bool) -> None:
    """Not when the reader has seen all that was dropped."""
    assert make_log(2, b"a", b"b", b"c", b"d").read(after_seq, None).truncated is truncated


def test_tiny_chunks_do_not_take_far_more_memory_than_the_capacity() -> None:
    """A process that writes byte by byte is bounded too."""
    log = OutputLog(100_000)
    for seq in range(1, 100_001):
        log.append(RetainedChunk(seq, "stdout", b"x"))
    assert len(log.read(0, None).chunks) < 20_000
