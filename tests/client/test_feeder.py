"""Tests of execsrv.client.feeder."""

from __future__ import annotations

import queue

import pytest
from fake_server import WAIT

from execsrv.client.errors import ClosedError, ExecServerError, ServerError
from execsrv.client.feeder import Feeder


class FakeProcess:
    """Notes what is done to it; ``failure`` is what writing raises."""

    def __init__(self, failure: ExecServerError | None = None) -> None:
        self.done: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._failure = failure

    def write(self, data: memoryview) -> None:
        """Note it."""
        self.done.put(bytes(data))
        if self._failure:
            raise self._failure

    def close_stdin(self) -> None:
        """Note it."""
        self.done.put("end")

    def kill(self) -> bool:
        """Note it."""
        self.done.put("kill")
        return True


def test_input_is_written_and_ended() -> None:
    """On another thread, so both are waited for."""
    process = FakeProcess()
    feeder = Feeder(process, memoryview(b"data"))
    assert [process.done.get(timeout=WAIT) for _ in range(2)] == [b"data", "end"]
    assert feeder.error is None


def test_no_input_is_only_ended() -> None:
    """Nothing is written, which would fail without need."""
    process = FakeProcess()
    Feeder(process, memoryview(b""))
    assert process.done.get(timeout=WAIT) == "end"


@pytest.mark.parametrize(
    "failure", [ServerError(-32600, "closed", "stdinClosed"), ServerError(-32600, "gone", "unknownProcess")]
)
def test_input_that_is_not_wanted_is_no_error(failure: ServerError) -> None:
    """The process has ended, or will, as it likes."""
    process = FakeProcess(failure)
    feeder = Feeder(process, memoryview(b"data"))
    feeder.join(WAIT)
    assert process.done.get(timeout=WAIT) == b"data"
    assert (process.done.empty(), feeder.error) == (True, None)


def test_lost_connection_is_told_elsewhere() -> None:
    """There is nobody to kill."""
    process = FakeProcess(ClosedError("lost"))
    feeder = Feeder(process, memoryview(b"data"))
    feeder.join(WAIT)
    assert process.done.get(timeout=WAIT) == b"data"
    assert (process.done.empty(), feeder.error) == (True, None)


def test_process_that_cannot_be_fed_is_killed() -> None:
    """It would wait for ever; the error is kept for who asks."""
    failure = ServerError(-32600, "full", "limitExceeded")
    process = FakeProcess(failure)
    feeder = Feeder(process, memoryview(b"data"))
    assert [process.done.get(timeout=WAIT) for _ in range(2)] == [b"data", "kill"]
    assert feeder.error is failure
