"""Writes to a process, in front of real pipes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import gevent
import pytest
from gevent.socket import wait_read

from execsrv.errors import InvalidRequest
from execsrv.server.processes.descriptor import Descriptor
from execsrv.server.processes.faults import unknown_process
from execsrv.server.processes.stdin import MAX_WAITING_BYTES, Stdin

BIG = bytes(range(256)) * 4096  # 1 MiB: far more than a pipe holds


class Child:
    """The reading end of an input."""

    def __init__(self) -> None:
        self._reading, writing = os.pipe()
        self.descriptor = Descriptor(writing)

    def read(self, length: int) -> bytes:
        """Exactly ``length`` bytes."""
        data = bytearray()
        while len(data) < length:
            wait_read(self._reading, timeout=10)
            data += os.read(self._reading, length - len(data))
        return bytes(data)

    def read_some(self) -> bytes:
        """What is there; nothing at the end."""
        wait_read(self._reading, timeout=10)
        return os.read(self._reading, 1000)

    def die(self) -> None:
        """Read no more."""
        if self._reading >= 0:
            os.close(self._reading)
        self._reading = -1


@pytest.fixture
def child(nothing_left: Callable[[], None]) -> Iterator[Child]:
    """A child that reads when it is told to."""
    child = Child()
    yield child
    child.descriptor.close()
    child.die()


@pytest.fixture
def stdin() -> Stdin:
    """An input that is not attached yet."""
    return Stdin("p1", open=True)


def write(stdin: Stdin, data: bytes) -> gevent.Greenlet:
    """A greenlet that writes and has come as far as it can."""

    def write() -> str | None:
        try:
            stdin.write(data)
        except InvalidRequest as fault:
            return fault.kind
        return None

    greenlet = gevent.spawn(write)
    gevent.idle()
    return greenlet


def results(writes: list[gevent.Greenlet]) -> list[str | None]:
    """The kinds of the faults, None for success."""
    gevent.joinall(writes, timeout=10)
    return [write.value if write.ready() else "waits" for write in writes]


def test_what_is_written_before_the_start_waits_for_it(stdin: Stdin, child: Child) -> None:
    """And then goes out in order."""
    writes = [write(stdin, data) for data in (b"a", b"", b"b", b"c")]
    assert not any(write.ready() for write in writes)
    stdin.attach(child.descriptor)
    assert results(writes) == [None] * 4
    assert child.read(3) == b"abc"


def test_big_writes_go_out_whole_and_in_order(stdin: Stdin, child: Child) -> None:
    """However little fits at a time."""
    stdin.attach(child.descriptor)
    writes = [write(stdin, data) for data in (b"first", BIG, b"second", BIG[::-1])]
    assert child.read(2 * len(BIG) + 11) == b"first" + BIG + b"second" + BIG[::-1]
    assert results(writes) == [None] * 4


def test_a_child_that_does_not_read_delays_its_own_writes(stdin: Stdin, child: Child) -> None:
    """The answer comes when the pipe has all of the bytes."""
    stdin.attach(child.descriptor)
    small, big = write(stdin, b"x"), write(stdin, BIG)
    assert small.ready() and not big.ready()
    child.read(1 + len(BIG) - 1000)
    assert results([big]) == [None]


def test_too_much_waiting_is_refused(stdin: Stdin, child: Child) -> None:
    """One write of any size is taken; the next only while less than the limit waits."""
    writes = [write(stdin, bytes(MAX_WAITING_BYTES - 1)), write(stdin, bytes(MAX_WAITING_BYTES))]
    assert results([write(stdin, b"x"), write(stdin, b"")]) == ["limitExceeded", "limitExceeded"]
    stdin.attach(child.descriptor)
    child.read(2 * MAX_WAITING_BYTES - 1)
    assert results(writes) == [None, None]
    assert results([write(stdin, b"x")]) == [None]


def test_the_limit_is_named(stdin: Stdin) -> None:
    """With its value."""
    waiting = write(stdin, bytes(MAX_WAITING_BYTES))
    with pytest.raises(InvalidRequest, match=str(MAX_WAITING_BYTES)):
        stdin.write(b"x")
    stdin.close()
    assert results([waiting]) == ["stdinClosed"]


def test_without_an_input_nothing_can_be_written() -> None:
    """It says whose input is closed."""
    stdin = Stdin("p1", open=False)
    with pytest.raises(InvalidRequest, match="^stdin is closed for process p1$"):
        stdin.check_open()
    with pytest.raises(InvalidRequest, match="^stdin is closed for process p1$"):
        stdin.write(b"x")


def test_closing_answers_all_who_wait(stdin: Stdin, child: Child) -> None:
    """Also the one that is half written; twice is harmless."""
    stdin.attach(child.descriptor)
    writes = [write(stdin, BIG), write(stdin, b"x")]
    stdin.close()
    stdin.close()
    assert results([*writes, write(stdin, b"x")]) == ["stdinClosed"] * 3


def test_closing_can_give_another_reason(stdin: Stdin) -> None:
    """For a process that never started."""
    writes = [write(stdin, b"x"), write(stdin, b"y")]
    stdin.close(unknown_process("p1"))
    assert results(writes) == ["unknownProcess"] * 2


def test_a_child_that_stops_reading_closes_the_input(stdin: Stdin, child: Child) -> None:
    """EPIPE: those who wait and those who come are told."""
    stdin.attach(child.descriptor)
    writes = [write(stdin, BIG), write(stdin, b"x")]
    child.die()
    assert results(writes) == ["stdinClosed"] * 2
    assert results([write(stdin, b"x")]) == ["stdinClosed"]


def test_a_descriptor_that_is_closed_closes_the_input(stdin: Stdin, child: Child) -> None:
    """Its owner has the last word."""
    stdin.attach(child.descriptor)
    writes = [write(stdin, BIG), write(stdin, b"x")]
    child.descriptor.close()
    assert results(writes) == ["stdinClosed"] * 2


def test_a_killed_writer_does_not_stop_the_others(stdin: Stdin, child: Child) -> None:
    """Its bytes, once accepted, still go out in their place."""
    stdin.attach(child.descriptor)
    doomed = write(stdin, BIG)
    other = write(stdin, b"tail")
    doomed.kill()
    assert child.read(len(BIG) + 4) == BIG + b"tail"
    assert results([other]) == [None]


# ---- the end of the input ------------------------------------------------------------------------------------------


def at_end(child: Child) -> bool:
    """Is the child's end at the end of file?"""
    return child.read_some() == b""


def test_a_finished_pipe_is_closed_behind_what_waits(stdin: Stdin, child: Child) -> None:
    """What comes later is refused; twice is harmless."""
    stdin.attach(child.descriptor)
    waiting = write(stdin, BIG)
    stdin.finish()
    stdin.finish()
    assert results([write(stdin, b"late")]) == ["stdinClosed"]
    assert child.read(len(BIG)) == BIG
    assert results([waiting]) == [None]
    assert at_end(child)


def test_an_input_can_be_finished_before_the_start(stdin: Stdin, child: Child) -> None:
    """It keeps its place behind what was written before, and in front of what comes later."""
    early = write(stdin, b"early")
    stdin.finish()
    assert results([write(stdin, b"late")]) == ["stdinClosed"]
    stdin.attach(child.descriptor)
    assert child.read(5) == b"early"
    assert results([early]) == [None]
    assert at_end(child)


@pytest.mark.parametrize(
    "written, end",
    [
        ([], b"\x1a"),
        ([b"line\n"], b"\x1a"),
        ([b"line\r"], b"\x1a"),
        ([b"line\x04"], b"\x1a"),
        ([b"line\n", b""], b"\x1a"),
        ([b"part"], b"\x1a\x1a"),
        ([b"line\n", b"part"], b"\x1a\x1a"),
    ],
)
def test_a_finished_terminal_gets_its_character(stdin: Stdin, child: Child, written: list[bytes], end: bytes) -> None:
    """Once at the start of a line, else twice; the descriptor stays open, for the output."""
    stdin.attach(child.descriptor, lambda: b"\x1a")
    assert results([write(stdin, data) for data in written]) == [None] * len(written)
    stdin.finish()
    stdin.finish()
    expected = b"".join(written) + end
    assert child.read(len(expected)) == expected
    gevent.idle()
    child.descriptor.write(memoryview(b"!"))
    assert child.read(1) == b"!"


def test_the_character_waits_for_a_full_terminal(stdin: Stdin, child: Child) -> None:
    """It is asked for when its turn has come."""
    characters = [b"?"]
    stdin.attach(child.descriptor, lambda: characters[0])
    waiting = write(stdin, BIG[:-1] + b"\n")
    stdin.finish()
    characters[0] = b"!"
    assert child.read(len(BIG) + 1).endswith(b"\n!")
    assert results([waiting]) == [None]


def test_a_child_that_ends_makes_its_finish_harmless(stdin: Stdin, child: Child) -> None:
    """Before it and after it."""
    stdin.attach(child.descriptor, lambda: b"\x04")
    waiting = write(stdin, BIG)
    stdin.finish()
    stdin.close()
    stdin.finish()
    assert results([waiting]) == ["stdinClosed"]
