"""Descriptors under greenlets: waiting, stopping, blocking ones on threads."""

from __future__ import annotations

import os
import pty
import time
import tty
from collections.abc import Iterator
from pathlib import Path

import gevent
import pytest
from gevent.event import Event

from execsrv.transports import TransportClosed
from execsrv.transports.descriptors import Sink, Source

PATIENCE = 20


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    """No test of this module hangs."""
    with gevent.Timeout(PATIENCE):
        yield


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe that does not block; the test closes its ends or leaves them to the fixture."""
    ends = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    yield ends
    for fd in ends:
        close_if_open(fd)


def close_if_open(fd: int) -> None:
    """Close a descriptor that the test may have closed."""
    try:
        os.close(fd)
    except OSError:
        pass


def waiting(channel: Source | Sink) -> None:
    """Run other greenlets until one waits in ``channel``."""
    while channel.waiting_since is None:
        gevent.sleep(0)


def stop(channel: Source | Sink) -> None:
    """Stop and wait until nobody uses the descriptor any more."""
    free = Event()
    channel.stop(free.set)
    free.wait()


def test_read_returns_what_is_there(pipe: tuple[int, int]) -> None:
    """Bytes in the pipe come at once."""
    os.write(pipe[1], b"hello")
    assert Source(pipe[0]).read(100) == b"hello"


def test_read_waits_for_bytes(pipe: tuple[int, int]) -> None:
    """A read of an empty pipe waits, and shows since when."""
    source = Source(pipe[0])
    reader = gevent.spawn(source.read, 100)
    waiting(source)
    assert source.waiting_since is not None and source.waiting_since <= time.monotonic()
    os.write(pipe[1], b"late")
    assert reader.get() == b"late"
    assert source.waiting_since is None


def test_read_at_end_of_file_is_empty(pipe: tuple[int, int]) -> None:
    """Nobody writes any more: no bytes."""
    os.close(pipe[1])
    assert Source(pipe[0]).read(100) == b""


def test_read_of_a_directory_is_empty(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """An error of the descriptor counts as its end; no traceback tells of it."""
    fd = os.open(tmp_path, os.O_RDONLY)
    assert Source(fd).read(100) == b""
    assert capfd.readouterr().err == ""
    os.close(fd)


def test_stop_wakes_a_reader_before_the_descriptor_is_closed(pipe: tuple[int, int]) -> None:
    """The reader gets the end; the loop survives the closing and the number's reuse."""
    source = Source(pipe[0])
    reader = gevent.spawn(source.read, 100)
    waiting(source)
    source.stop(lambda: os.close(pipe[0]))
    assert reader.get() == b""
    assert source.read(100) == b""
    reused = os.open(os.devnull, os.O_RDONLY)
    assert reused == pipe[0]


def test_stop_wakes_a_writer(pipe: tuple[int, int]) -> None:
    """A write into a full pipe fails when the sink is stopped."""
    sink = Sink(pipe[1])
    writer = gevent.spawn(sink.write, [bytes(1_000_000)])
    waiting(sink)
    stop(sink)
    with pytest.raises(TransportClosed):
        writer.get()


def test_write_waits_for_the_reader(pipe: tuple[int, int]) -> None:
    """All of a large write arrives."""
    data = os.urandom(1_000_000)
    writer = gevent.spawn(Sink(pipe[1]).write, [data])
    source, got = Source(pipe[0]), b""
    while len(got) < len(data):
        got += source.read(70_000)
    writer.get()
    assert got == data


def test_write_without_reader_fails(pipe: tuple[int, int]) -> None:
    """A broken pipe is a closed transport."""
    os.close(pipe[0])
    with pytest.raises(TransportClosed):
        Sink(pipe[1]).write([b"x"])


def test_nothing_is_written_after_a_write_cut_short(pipe: tuple[int, int]) -> None:
    """What follows half a message would be taken for its other half."""
    sink = Sink(pipe[1])
    writer = gevent.spawn(sink.write, [bytes(1_000_000)])
    waiting(sink)
    writer.kill()
    source = Source(pipe[0])
    source.read(1_000_000)
    assert not sink.write_now([b"x"])
    with pytest.raises(TransportClosed):
        sink.write([b"x"])
    os.close(pipe[1])
    assert source.read(100) == b""


def test_so_many_parts_are_written_at_once_as_the_system_takes(pipe: tuple[int, int]) -> None:
    """The others by the next call."""
    parts = [b"%04d" % number for number in range(2_000)]
    sink = Sink(pipe[1])
    assert not sink.write_now(parts)  # as many as the system takes at once
    assert sink.write_now([])
    assert Source(pipe[0]).read(100_000) == b"".join(parts)


def test_what_does_not_fit_is_written_first_by_the_next_write(pipe: tuple[int, int]) -> None:
    """Not a byte is lost or swapped, wherever the pipe was full."""
    parts = [os.urandom(50_001) for _ in range(4)]
    sink = Sink(pipe[1])
    assert not sink.write_now(parts)
    assert not sink.write_now([b"after"])
    writer = gevent.spawn(sink.write, [b"last"])
    source, got = Source(pipe[0]), b""
    while not got.endswith(b"last"):
        got += source.read(70_000)
    writer.get()
    assert got == b"".join(parts) + b"afterlast"


def test_the_next_write_tells_why_nothing_could_be_written_at_once(pipe: tuple[int, int]) -> None:
    """A broken pipe, and a sink that was stopped."""
    sink, stopped = Sink(pipe[1]), Sink(pipe[1])
    os.close(pipe[0])
    assert not sink.write_now([b"x"])
    stop(stopped)
    assert not stopped.write_now([b"x"])
    for closed in (sink, stopped):
        with pytest.raises(TransportClosed):
            closed.write([])


def test_nothing_is_written_at_once_to_what_may_block(tmp_path: Path) -> None:
    """A file may be on a slow disk: that is left to the next write."""
    path = tmp_path / "file"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    sink = Sink(fd)
    assert not sink.write_now([b"one", b"two"])
    assert path.read_bytes() == b""
    sink.write([b"three"])
    assert path.read_bytes() == b"onetwothree"
    os.close(fd)


def test_files_are_used_on_threads(tmp_path: Path) -> None:
    """A regular file is read and written whole, and its flags stay."""
    path = tmp_path / "file"
    write_fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    Sink(write_fd).write([b"x" * 200_000])
    read_fd = os.open(path, os.O_RDONLY)
    source = Source(read_fd)
    assert b"".join(iter(lambda: source.read(64_000), b"")) == b"x" * 200_000
    assert os.get_blocking(write_fd) and os.get_blocking(read_fd)
    os.close(write_fd)
    os.close(read_fd)


def test_a_terminal_is_waited_for_and_the_wait_can_be_stopped() -> None:
    """A blocking terminal's reader is woken; its flags stay."""
    master, slave = pty.openpty()
    source = Source(slave)
    reader = gevent.spawn(source.read, 100)
    waiting(source)
    os.write(master, b"line\n")
    assert reader.get() == b"line\n"
    reader = gevent.spawn(source.read, 100)
    waiting(source)
    stop(source)
    assert reader.get() == b""
    assert os.get_blocking(slave)
    os.close(master)
    os.close(slave)


def test_a_descriptor_is_kept_while_a_thread_writes_to_it() -> None:
    """A terminal nobody reads holds the thread: the greenlet is woken, the descriptor freed only afterwards."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    sink, free = Sink(slave), Event()
    writer = gevent.spawn(sink.write, [bytes(1_000_000)])
    gevent.spawn(Source(master).read, 1).get()  # the thread is at work
    sink.stop(free.set)
    with pytest.raises(TransportClosed):
        writer.get()
    assert not free.is_set()
    os.close(master)
    free.wait()
    os.close(slave)


def test_a_source_that_is_always_ready_lets_others_run() -> None:
    """Reading that never waits still switches to other greenlets."""
    fd = os.open("/dev/zero", os.O_RDONLY | os.O_NONBLOCK)
    source, ran = Source(fd), Event()
    gevent.spawn(ran.set)
    while not ran.is_set():
        assert source.read(10) == bytes(10)
    os.close(fd)
