"""How long closed processes can be read, and what is known of them afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import gevent
import pytest

from execsrv.errors import InvalidRequest
from execsrv.protocol.processes import RetainedChunk
from execsrv.server.processes.process import Bounds, Process
from execsrv.server.processes.retention import (
    MAX_FORGOTTEN,
    MAX_RETAINED_BYTES,
    MAX_RETAINED_PROCESSES,
    ClosedProcesses,
)

if TYPE_CHECKING:
    from conftest import RecordingSink

    from execsrv.server.processes.command import Command

MIB = 1 << 20


@pytest.fixture
def closed_process(command: Callable[..., Command], sink: RecordingSink) -> Callable[..., Process]:
    """Makes processes that look as if they had ended."""

    def make(process_id: str, size: int = 0, exit_code: int = 0) -> Process:
        process = Process(process_id, command("true"), sink, Bounds(64 * MIB))
        if size:
            process.log.append(RetainedChunk(1, "stdout", bytes(size)))
        process.exit_code, process.exited_at_ms, process.closed = exit_code, 1234, True
        return process

    return make


@pytest.fixture
def make_closed() -> Iterator[Callable[[int], ClosedProcesses]]:
    """Makes collections with a retention in milliseconds."""
    made: list[ClosedProcesses] = []

    def make(retention_ms: int = 60_000) -> ClosedProcesses:
        made.append(ClosedProcesses(retention_ms))
        return made[-1]

    yield make
    for closed in made:
        closed.clear()


def fault_of(closed: ClosedProcesses, process_id: str) -> InvalidRequest:
    """Why an id is not found."""
    with pytest.raises(InvalidRequest) as caught:
        closed.find(process_id)
    return caught.value


def wait_forgotten(closed: ClosedProcesses, process_id: str) -> None:
    """Wait until the time of a process is over; nothing tells."""
    with gevent.Timeout(10):
        while process_id in closed:
            gevent.sleep(0.001)


def test_a_closed_process_can_be_found(closed_process: Callable[..., Process], make_closed: Callable) -> None:
    """As long as it is retained."""
    closed, process = make_closed(), closed_process("p")
    assert "p" not in closed
    closed.add(process)
    assert "p" in closed and closed.find("p") is process


def test_an_id_that_never_was_is_unknown(make_closed: Callable) -> None:
    """The kind tells it from a forgotten one."""
    fault = fault_of(make_closed(), "p")
    assert (fault.kind, fault.message, fault.data) == ("unknownProcess", "unknown process id p", {})


def test_when_its_time_is_over_only_its_end_is_known(
    closed_process: Callable[..., Process], make_closed: Callable
) -> None:
    """One after the other, also those that come later."""
    closed = make_closed(20)
    for name in "abc":
        closed.add(closed_process(name, exit_code=7))
        if name == "b":
            wait_forgotten(closed, "b")
    wait_forgotten(closed, "c")
    for name in "abc":
        fault = fault_of(closed, name)
        assert (fault.kind, fault.message) == ("processForgotten", f"unknown process id {name}")
        assert fault.data == {"exitCode": 7, "exitedAtMs": 1234}


def test_no_retention_forgets_at_once(closed_process: Callable[..., Process], make_closed: Callable) -> None:
    """Zero is a valid time."""
    closed = make_closed(0)
    closed.add(closed_process("p"))
    wait_forgotten(closed, "p")
    assert fault_of(closed, "p").kind == "processForgotten"


def test_the_oldest_are_forgotten_when_the_bytes_are_too_many(
    closed_process: Callable[..., Process], make_closed: Callable
) -> None:
    """As many as are needed and no more; even the newest, if it is too big alone."""
    closed = make_closed()
    for name, size in (("a", 20), ("b", 20), ("c", 20), ("d", 4)):
        closed.add(closed_process(name, size * MIB))
    assert all(name in closed for name in "abcd")
    closed.add(closed_process("e", 30 * MIB))
    assert [name for name in "abcde" if name in closed] == ["c", "d", "e"]
    closed.add(closed_process("f", MAX_RETAINED_BYTES + 1))
    assert not any(name in closed for name in "abcdef")


def test_forgetting_gives_the_room_back(closed_process: Callable[..., Process], make_closed: Callable) -> None:
    """However often."""
    closed = make_closed()
    for number in range(20):
        closed.add(closed_process(f"p{number}", 32 * MIB))
    assert [number for number in range(20) if f"p{number}" in closed] == [18, 19]


def test_the_oldest_are_forgotten_when_there_are_too_many(
    closed_process: Callable[..., Process], make_closed: Callable
) -> None:
    """The bound on their number; and of the forgotten the last ones are remembered."""
    closed = make_closed()
    for number in range(MAX_RETAINED_PROCESSES + MAX_FORGOTTEN + 1):
        closed.add(closed_process(str(number)))
    assert "256" not in closed and "257" in closed
    assert fault_of(closed, "0").kind == "unknownProcess"
    assert {fault_of(closed, str(number)).kind for number in (1, 256)} == {"processForgotten"}


def test_an_id_that_is_used_again_has_no_past(closed_process: Callable[..., Process], make_closed: Callable) -> None:
    """Dropping an end that is not there is harmless."""
    closed = make_closed(0)
    closed.add(closed_process("p"))
    wait_forgotten(closed, "p")
    closed.drop_end("p")
    closed.drop_end("p")
    assert fault_of(closed, "p").kind == "unknownProcess"


def test_clear_forgets_everything(closed_process: Callable[..., Process], make_closed: Callable) -> None:
    """And it can be used again."""
    closed = make_closed(20)
    closed.add(closed_process("p"))
    closed.clear()
    gevent.idle()
    assert "p" not in closed
    closed.add(closed_process("q"))
    wait_forgotten(closed, "q")
