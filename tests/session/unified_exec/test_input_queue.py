"""Tests of execsrv.session.unified_exec.input_queue."""

from __future__ import annotations

import threading

import pytest
from exec_fakes import WAIT, in_background, in_parallel

from execsrv.session.unified_exec.errors import ConnectionLost, WriteFailed
from execsrv.session.unified_exec.input_queue import InputQueue
from execsrv.session.unified_exec.request import MAX_INPUT_BYTES


class Reader:
    """Takes input once ``reads`` is set; first it may raise ``error``."""

    def __init__(self, error: Exception | None = None) -> None:
        self.reads = threading.Event()
        self.taken: list[bytes] = []
        self._error = error

    def write(self, data: bytes) -> None:
        """Take a piece."""
        assert self.reads.wait(WAIT)
        if self._error:
            error, self._error = self._error, None
            raise error
        self.taken.append(data)


@pytest.fixture
def reader() -> Reader:
    """One who does not read yet."""
    return Reader()


def test_put_waits_until_it_is_written(reader: Reader) -> None:
    """Again and again."""
    reader.reads.set()
    queue = InputQueue(reader.write)
    for piece in (b"one", b"two"):
        queue.put(piece, WAIT)
        assert reader.taken[-1] == piece
    assert reader.taken == [b"one", b"two"]


def test_put_does_not_wait_for_ever(reader: Reader) -> None:
    """What is not taken in time is taken later, in order."""
    queue = InputQueue(reader.write)
    queue.put(b"one", 0)
    queue.put(b"two", 0.01)
    assert reader.taken == []
    last = in_background(queue.put, b"three", WAIT)
    reader.reads.set()
    last.result(WAIT)
    assert reader.taken == [b"one", b"two", b"three"]


def test_input_is_bounded(reader: Reader) -> None:
    """Until there is room again."""
    queue = InputQueue(reader.write)
    queue.put(bytes(MAX_INPUT_BYTES), 0)
    with pytest.raises(WriteFailed):
        queue.put(b"x", 0)
    reader.reads.set()
    in_background(queue.put, b"", WAIT)
    while True:
        try:
            return queue.put(bytes(MAX_INPUT_BYTES), WAIT)
        except WriteFailed:
            assert len(reader.taken) < 2


@pytest.mark.parametrize("error", [WriteFailed("broken"), ConnectionLost("broken")])
def test_failure_is_told(error: WriteFailed | ConnectionLost) -> None:
    """To whoever waits, and to whoever comes later; nothing more is written."""
    reader = Reader(error)
    queue = InputQueue(reader.write)
    queue.put(b"one", 0)
    waiting = in_background(queue.put, b"two", WAIT)
    reader.reads.set()
    for _ in range(2):
        with pytest.raises(type(error), match="broken"):
            waiting.result(WAIT)
        waiting = in_background(queue.put, b"three", WAIT)
    assert reader.taken == []


def test_many_threads(reader: Reader) -> None:
    """Each piece is written once and whole."""
    reader.reads.set()
    queue = InputQueue(reader.write)
    pieces = [b"%d" % number for number in range(50)]
    in_parallel([lambda piece=piece: queue.put(piece, WAIT) for piece in pieces])
    assert sorted(reader.taken) == sorted(pieces)
