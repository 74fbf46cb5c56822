"""Tests of execsrv.session.unified_exec.command_session, with a fake process."""

from __future__ import annotations

import dataclasses
import threading
from concurrent.futures import Future

import pytest
from exec_fakes import REQUEST, WAIT, Collector, FakeProcess, in_background, session_of

from execsrv.client.deadline import Deadline
from execsrv.client.events import EventBus
from execsrv.session.unified_exec.command_session import CommandSession
from execsrv.session.unified_exec.errors import ConnectionLost, StdinClosed
from execsrv.session.unified_exec.events import (
    ExecCommandBegin,
    ExecCommandEnd,
    ExecCommandOutputDelta,
    TerminalInteraction,
)
from execsrv.session.unified_exec.head_tail_buffer import RETAINED_BYTES, RetainedOutput


@pytest.fixture
def process() -> FakeProcess:
    """A process."""
    return FakeProcess()


def follow(process: FakeProcess, *chunks: bytes, code: int = 0) -> CommandSession:
    """A session of a process that has written ``chunks`` and ended."""
    session = session_of(process)
    for chunk in chunks:
        process.says(chunk)
    process.ends(code)
    session.follow()
    return session


def followed(process: FakeProcess) -> tuple[CommandSession, Collector, Future[None]]:
    """A session that is followed in the background, and what its events say."""
    bus, seen = EventBus({}), Collector()
    bus.subscribe(seen)
    session = CommandSession(1234, REQUEST, process, bus)
    return session, seen, in_background(session.follow)


def test_output_and_code(process: FakeProcess) -> None:
    """Each byte is collected once."""
    session = follow(process, b"one\n", b"two\n", code=3)
    assert session.ended
    assert session.collect() == (RetainedOutput(b"one\ntwo\n"), 3)
    assert session.collect() == (RetainedOutput(b""), 3)


def test_output_of_a_running_command(process: FakeProcess) -> None:
    """There is no code yet; what comes later is collected later."""
    session, seen, following = followed(process)
    process.says(b"one")
    seen.wait_for("b'one'")
    assert session.collect() == (RetainedOutput(b"one"), None)
    assert not session.ended
    process.says(b"two")
    process.ends()
    following.result(WAIT)
    assert session.collect() == (RetainedOutput(b"two"), 0)


def test_wait_ends_with_the_command(process: FakeProcess) -> None:
    """Not only at its deadline."""
    session = session_of(process)
    waiting = in_background(session.wait, Deadline(None))
    following = in_background(session.follow)
    process.ends()
    waiting.result(WAIT)
    following.result(WAIT)
    assert session.ended


def test_wait_ends_at_its_deadline(process: FakeProcess) -> None:
    """Though the command goes on."""
    session = session_of(process)
    session.wait(Deadline(0.01))
    assert not session.ended


def test_character_is_collected_as_a_whole(process: FakeProcess) -> None:
    """Also when it comes in pieces; what is wrong, and what stays unfinished, is not lost."""
    session, seen, following = followed(process)
    process.says(b"a\xe2\x82")
    seen.wait_for("xe2")
    assert session.collect()[0].retained == b"a"
    process.says(b"\xac\xffb\xe2")
    process.ends()
    following.result(WAIT)
    assert session.collect()[0].retained == b"\xe2\x82\xac\xffb\xe2"
    end = seen.wait_for("ExecCommandEnd")[-1]
    assert end.transcript.retained == b"a\xe2\x82\xac\xffb\xe2"


def test_flood_is_bounded(process: FakeProcess) -> None:
    """Its middle is counted and gone."""
    chunk = bytes(64 * 1024)
    output, _ = follow(process, *[chunk] * 48).collect()
    assert len(output.retained) == RETAINED_BYTES
    assert output.omitted_bytes == 48 * len(chunk) - RETAINED_BYTES


def test_events_of_a_life(process: FakeProcess) -> None:
    """In order, the transcript last, whatever was collected before."""
    session, seen, following = followed(process)
    process.says(b"one")
    seen.wait_for("b'one'")
    session.collect()
    session.write(b"in", Deadline(WAIT))
    process.says(b"two")
    process.ends(3)
    following.result(WAIT)
    *events, end = seen.wait_for("ExecCommandEnd")
    assert events == [
        ExecCommandBegin("1234", ("prog", "arg"), "/project", True),
        ExecCommandOutputDelta("1234", b"one"),
        TerminalInteraction("1234", b"in"),
        ExecCommandOutputDelta("1234", b"two"),
    ]
    assert end == ExecCommandEnd("1234", 3, RetainedOutput(b"onetwo"), end.duration)
    assert 0 <= end.duration < WAIT


def test_input_is_passed_on_with_the_time_that_is_left(process: FakeProcess) -> None:
    """So that nobody waits longer than the caller wants."""
    session = session_of(process)
    session.write(b"in", Deadline(WAIT))
    session.write(b"late", Deadline(0))
    (first, left), (second, nothing) = process.written
    assert (first, second, nothing) == (b"in", b"late", 0)
    assert 0 < left <= WAIT


def test_input_without_a_terminal(process: FakeProcess) -> None:
    """It is refused, and no event says that it was given."""
    bus, seen = EventBus({}), Collector()
    bus.subscribe(seen)
    session = CommandSession(1234, dataclasses.replace(REQUEST, tty=False), process, bus)
    with pytest.raises(StdinClosed):
        session.write(b"in", Deadline(WAIT))
    process.ends()
    session.follow()
    assert [event.kind for event in seen.wait_for("ExecCommandEnd")] == ["begin", "end"]
    assert process.written == []


def test_input_for_one_that_has_ended(process: FakeProcess) -> None:
    """It is dropped: the answer says that the command has ended."""
    bus, seen = EventBus({}), Collector()
    bus.subscribe(seen)
    session = CommandSession(1234, REQUEST, process, bus)
    process.ends()
    session.follow()
    session.write(b"in", Deadline(WAIT))
    assert process.written == []
    bus.end(None)
    bus.join(WAIT)
    assert [getattr(event, "kind") for event in seen.events] == ["begin", "end"]


def test_lost_connection(process: FakeProcess) -> None:
    """It is no exit code for the caller; subscribers get what there was, and -1."""
    bus, seen = EventBus({}), Collector()
    bus.subscribe(seen)
    session = CommandSession(1234, REQUEST, process, bus)
    process.says(b"out")
    process.is_lost()
    session.follow()
    for _ in range(2):
        with pytest.raises(ConnectionLost, match="gone"):
            session.collect()
    end = seen.wait_for("ExecCommandEnd")[-1]
    assert (end.exit_code, end.transcript.retained) == (-1, b"out")


def test_a_lost_connection_ends_a_wait(process: FakeProcess) -> None:
    """At once."""
    session = session_of(process)
    waiting = in_background(session.wait, Deadline(None))
    process.is_lost()
    session.follow()
    waiting.result(WAIT)


def test_terminate_and_linger_are_for_the_process(process: FakeProcess) -> None:
    """Which is killed and freed."""
    session = session_of(process)
    session.terminate()
    session.follow()
    session.linger()
    assert process.terminated.is_set() and process.freed.is_set()
    assert session.collect()[1] == 137


def test_many_threads_collect_each_byte_once(process: FakeProcess) -> None:
    """Whoever comes first has it."""
    session = session_of(process)
    collected: list[bytes] = []
    lock = threading.Lock()

    def collect() -> None:
        while True:
            output, code = session.collect()
            with lock:
                collected.append(output.retained)
            if code is not None:
                return

    collecting = [in_background(collect) for _ in range(4)]
    for number in range(500):
        process.says(b"%d," % number)
    process.ends()
    session.follow()
    for future in collecting:
        future.result(WAIT)
    numbers = b"".join(collected).split(b",")[:-1]
    assert sorted(map(int, numbers)) == list(range(500))
