"""One descriptor and the greenlets that wait for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import gevent
import pytest
from gevent.event import Event

from execsrv.server.processes.descriptor import Descriptor, DescriptorClosed


class Pipe:
    """A pipe with the end under test as a Descriptor and the other one plain."""

    def __init__(self, ours: str) -> None:
        reading, writing = os.pipe()
        self.ours = Descriptor(reading if ours == "read" else writing)
        self.other = writing if ours == "read" else reading

    def close_other(self) -> None:
        """Close the plain end."""
        if self.other >= 0:
            os.close(self.other)
        self.other = -1


@pytest.fixture
def make_pipe(nothing_left: Callable[[], None]) -> Iterator[Callable[[str], Pipe]]:
    """Makes pipes and closes them."""
    pipes: list[Pipe] = []

    def make(ours: str) -> Pipe:
        pipes.append(Pipe(ours))
        return pipes[-1]

    yield make
    for pipe in pipes:
        pipe.ours.close()
        pipe.close_other()


@pytest.fixture
def source(make_pipe: Callable[[str], Pipe]) -> Pipe:
    """Ours reads."""
    return make_pipe("read")


@pytest.fixture
def target(make_pipe: Callable[[str], Pipe]) -> Pipe:
    """Ours writes."""
    return make_pipe("write")


def test_it_waits_until_there_is_something_to_read(source: Pipe) -> None:
    """The hub goes on meanwhile."""
    waiter = gevent.spawn(source.ours.wait_readable)
    gevent.idle()
    assert not waiter.ready()
    os.write(source.other, b"x")
    waiter.get(timeout=10)


def test_a_call_may_wait_for_something_to_read(source: Pipe) -> None:
    """Without a greenlet, and once."""
    calls: list[str] = []
    called = Event()
    source.ours.when_readable(lambda: (calls.append("readable"), called.set()))
    gevent.idle()
    assert calls == []
    os.write(source.other, b"x")
    assert called.wait(10)
    gevent.idle()
    gevent.idle()
    assert calls == ["readable"]


def test_a_call_waits_no_longer_than_the_descriptor_is_open(source: Pipe) -> None:
    """Its number may be another's next."""
    source.ours.when_readable(lambda: pytest.fail("it was closed"))
    source.ours.close()
    gevent.idle()
    os.set_blocking(source.other, False)
    with pytest.raises(BrokenPipeError):
        os.write(source.other, b"x")
    gevent.idle()


def test_reading_never_blocks(source: Pipe) -> None:
    """None for nothing now, the bytes when there are some, b"" at the end, again and again."""
    assert source.ours.read(10) is None
    os.write(source.other, b"abcdef")
    assert source.ours.read(4) == b"abcd"
    assert source.ours.read(4) == b"ef"
    source.close_other()
    assert source.ours.read(4) == b""
    assert source.ours.read(4) == b""
    assert source.ours.bytes_read == 6


def test_no_room_reads_nothing_and_is_not_the_end(source: Pipe) -> None:
    """A shut window must not look like the end of a stream."""
    os.write(source.other, b"x")
    assert source.ours.read(0) is None
    source.close_other()
    assert source.ours.read(0) is None
    assert source.ours.read(1) == b"x"


def test_the_end_of_file_counts_as_readable(source: Pipe) -> None:
    """Who waits learns of it."""
    waiter = gevent.spawn(source.ours.wait_readable)
    gevent.idle()
    source.close_other()
    waiter.get(timeout=10)


def test_a_terminal_is_read_until_nothing_is_left(nothing_left: Callable[[], None]) -> None:
    """The kernel gives it out in small pieces; EIO is its end."""
    master, slave = os.openpty()
    os.set_blocking(slave, False)
    terminal = Descriptor(master)
    written = 0
    try:
        while True:
            written += os.write(slave, b"x" * 1000)
    except BlockingIOError:
        pass
    assert len(terminal.read(1 << 20)) == written
    os.write(slave, b"last")
    os.close(slave)
    assert terminal.read(1 << 20) == b"last"
    assert terminal.read(1 << 20) == b""
    terminal.close()


def test_pending_tells_what_a_pipe_holds(source: Pipe) -> None:
    """Also at its end."""
    assert source.ours.pending() == 0
    os.write(source.other, b"x" * 50_000)
    assert source.ours.pending() == 50_000
    source.close_other()
    source.ours.read(50_000)
    assert source.ours.pending() == 0


def test_writing_never_blocks(target: Pipe) -> None:
    """It takes what fits and then nothing; room wakes who waits."""
    data = memoryview(bytes(1 << 20))
    taken = target.ours.write(data)
    assert 0 < taken < len(data)
    assert target.ours.write(data) == 0
    waiter = gevent.spawn(target.ours.wait_writable)
    gevent.idle()
    assert not waiter.ready()
    os.read(target.other, taken)
    waiter.get(timeout=10)


def test_a_pipe_that_nobody_reads_is_an_oserror(target: Pipe) -> None:
    """EPIPE, also for one who waits already."""
    target.ours.write(memoryview(bytes(1 << 20)))
    waiter = gevent.spawn(target.ours.wait_writable)
    gevent.idle()
    target.close_other()
    waiter.get(timeout=10)
    with pytest.raises(BrokenPipeError):
        target.ours.write(memoryview(b"x"))


def test_close_wakes_who_waits(source: Pipe, target: Pipe) -> None:
    """With DescriptorClosed, in both directions."""
    target.ours.write(memoryview(bytes(1 << 20)))
    waiters = [gevent.spawn(source.ours.wait_readable), gevent.spawn(target.ours.wait_writable)]
    gevent.idle()
    for pipe in (source, target):
        pipe.ours.close()
    gevent.joinall(waiters, timeout=10)
    assert [type(waiter.exception) for waiter in waiters] == [DescriptorClosed, DescriptorClosed]


def test_both_directions_of_a_terminal_can_wait_when_it_is_closed(nothing_left: Callable[[], None]) -> None:
    """The hub survives it."""
    master, slave = os.openpty()
    terminal = Descriptor(master)
    while terminal.write(memoryview(bytes(1000))):
        pass
    waiters = [gevent.spawn(terminal.wait_writable), gevent.spawn(terminal.wait_readable)]
    gevent.idle()
    terminal.close()
    gevent.joinall(waiters, timeout=10)
    assert all(waiter.ready() for waiter in waiters)
    os.close(slave)


def test_a_descriptor_that_is_closed_as_it_becomes_ready_wakes_once(source: Pipe) -> None:
    """Whichever comes first."""
    waiter = gevent.spawn(source.ours.wait_readable)
    gevent.idle()
    os.write(source.other, b"x")
    source.ours.close()
    waiter.join(timeout=10)
    assert waiter.ready()
    assert waiter.exception is None or isinstance(waiter.exception, DescriptorClosed)


def test_a_closed_descriptor_refuses_everything(source: Pipe) -> None:
    """Its number may be another's by now; closing again is harmless."""
    source.ours.close()
    source.ours.close()
    for use in (
        source.ours.wait_readable,
        source.ours.wait_writable,
        source.ours.pending,
        lambda: source.ours.read(1),
        lambda: source.ours.write(memoryview(b"x")),
    ):
        with pytest.raises(DescriptorClosed):
            use()


def test_a_new_descriptor_with_the_old_number_is_left_alone(source: Pipe) -> None:
    """Closing happens once."""
    number = source.ours.fd
    source.ours.close()
    gevent.idle()
    reused = os.dup(source.other)
    assert reused == number
    source.ours.close()
    gevent.idle()
    os.close(reused)


def test_a_killed_waiter_leaves_a_descriptor_that_works(source: Pipe) -> None:
    """The next one waits as the first did."""
    waiter = gevent.spawn(source.ours.wait_readable)
    gevent.idle()
    waiter.kill()
    waiter = gevent.spawn(source.ours.wait_readable)
    gevent.idle()
    os.write(source.other, b"x")
    waiter.get(timeout=10)
