"""Lines as messages, and a process's standard streams."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import gevent
import pytest
from transport_peers import as_messages, nothing

from execsrv.transports import MessageTooLarge, TransportClosed
from execsrv.transports.descriptors import Source
from execsrv.transports.stdio import LineSplitter, StdioTransport

PATIENCE = 20
LIMIT = 1000


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    """No test of this module hangs."""
    with gevent.Timeout(PATIENCE):
        yield


class Wire:
    """A transport between two pipes, and the peer's ends of them."""

    def __init__(self, limit: int) -> None:
        read_fd, self.input = os.pipe()
        self.output, write_fd = os.pipe()
        self.fds = read_fd, write_fd
        self.transport = StdioTransport(read_fd, write_fd, limit)

    def feed(self, data: bytes, end: bool = True) -> None:
        """Write input in a greenlet of the hub, since a pipe holds only so much."""
        os.set_blocking(self.input, False)
        while data:
            try:
                data = data[os.write(self.input, data) :]
            except BlockingIOError:
                gevent.sleep(0)
        if end:
            os.close(self.input)

    def close(self) -> None:
        """Close what the test left open."""
        self.transport.close()
        for fd in (self.input, self.output):
            try:
                os.close(fd)
            except OSError:
                pass


@pytest.fixture
def make_wire() -> Iterator[Callable[..., Wire]]:
    """Makes wires with a limit for messages."""
    wires: list[Wire] = []

    def make(limit: int = LIMIT) -> Wire:
        wires.append(Wire(limit))
        return wires[-1]

    yield make
    for wire in wires:
        wire.close()


def messages(transport: StdioTransport) -> list[bytes | None]:
    """All messages to the end; None for one that was too large."""
    got: list[bytes | None] = []
    while True:
        try:
            message = transport.receive(nothing)
        except MessageTooLarge:
            got.append(None)
            continue
        if message is None:
            return got
        got.append(message)


# ---- lines -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_lines_do_not_depend_on_how_the_bytes_come(size: int) -> None:
    """Any cut of the stream gives the same lines; endings and blank lines vanish."""
    stream = b"one\ntwo\r\n\n  \n\r\nthr\ree\n" + b"x" * 11 + b"\n12345678\r\n" + b"y" * 30 + b"\nlast"
    splitter = LineSplitter(8)
    lines = [line for at in range(0, len(stream), size) for line in splitter.feed(stream[at : at + size])]
    lines += splitter.finish()
    assert lines == [b"one", b"two", b"thr\ree", None, b"12345678", None, b"last"]


def test_a_long_line_is_not_held() -> None:
    """What exceeds the limit is let go while it comes in."""
    splitter, piece = LineSplitter(1000), b"x" * 700
    tracemalloc.start()
    for _ in range(1000):
        assert list(splitter.feed(piece)) == []
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50_000
    assert list(splitter.feed(b"\nok\n")) == [None, b"ok"]


def test_only_one_carriage_return_belongs_to_the_ending() -> None:
    """A line of exactly the limit may end in CR LF, but not in another byte; a second CR is content."""
    assert list(LineSplitter(3).feed(b"abc\r\nabcd\nab\r\r\nabc\r\r\n")) == [b"abc", None, b"ab\r", None]


# ---- transport -------------------------------------------------------------------------------------------------------


def test_messages_come_in_order_and_the_last_needs_no_newline(make_wire: Callable[..., Wire]) -> None:
    """Lines to the end of file, and the end again and again."""
    wire = make_wire()
    gevent.spawn(wire.feed, b'{"a":1}\n\n{"b":2}\r\n{"c":3}')
    assert messages(wire.transport) == [b'{"a":1}', b'{"b":2}', b'{"c":3}']
    assert wire.transport.receive(nothing) is None


def test_a_long_message_is_refused_once_and_skipped(make_wire: Callable[..., Wire]) -> None:
    """The messages around one above the limit are not harmed."""
    wire = make_wire()
    gevent.spawn(wire.feed, b"first\n" + b"x" * 300_000 + b"\nsecond\n")
    assert messages(wire.transport) == [b"first", None, b"second"]


def test_a_large_message_arrives_whole(make_wire: Callable[..., Wire]) -> None:
    """A message far longer than a pipe."""
    wire = make_wire(limit=20_000_000)
    text = os.urandom(5_000_000).hex().encode()
    gevent.spawn(wire.feed, text + b"\n")
    assert messages(wire.transport) == [text]


def test_receive_waits_without_end_of_file(make_wire: Callable[..., Wire]) -> None:
    """A message is given out when it is whole, not when the stream ends."""
    wire = make_wire()
    receiver = gevent.spawn(wire.transport.receive, nothing)
    wire.feed(b"half a mes", end=False)
    gevent.sleep(0)
    assert not receiver.ready()
    wire.feed(b"sage\n", end=False)
    assert receiver.get() == b"half a message"


def test_send_writes_a_line_a_message(make_wire: Callable[..., Wire]) -> None:
    """Messages are joined by newlines."""
    wire = make_wire()
    wire.transport.send(as_messages(b"one", b"two"))
    wire.transport.send(as_messages(b"three"))
    assert os.read(wire.output, 100) == b"one\ntwo\nthree\n"


def test_lines_are_sent_at_once_as_far_as_they_fit(make_wire: Callable[..., Wire]) -> None:
    """And the rest by the next send, before what that is given."""
    wire = make_wire()
    assert wire.transport.send_now(as_messages(b"one", b"two"))
    assert os.read(wire.output, 100) == b"one\ntwo\n"
    assert not wire.transport.send_now(as_messages(b"x" * 1_000_000))
    sender = gevent.spawn(wire.transport.send, as_messages(b"last"))
    os.set_blocking(wire.output, False)
    source, got = Source(wire.output), b""
    while not got.endswith(b"last\n"):
        got += source.read(65536)
    sender.get()
    assert got == b"x" * 1_000_000 + b"\nlast\n"


def test_it_is_told_before_it_waits(make_wire: Callable[..., Wire]) -> None:
    """And only when no message is left of what has come."""
    wire, seen = make_wire(), list[str | bytes | None]()
    wire.feed(b"one\ntwo\n")
    for _ in range(3):
        seen.append(wire.transport.receive(lambda: seen.append("wait")))
    assert seen == ["wait", b"one", b"two", "wait", None]


def test_send_waits_for_a_slow_peer(make_wire: Callable[..., Wire]) -> None:
    """More than a pipe holds arrives whole."""
    wire = make_wire()
    sender = gevent.spawn(wire.transport.send, as_messages(b"x" * 1_000_000))
    got = 0
    os.set_blocking(wire.output, False)
    while got < 1_000_001:
        try:
            got += len(os.read(wire.output, 65536))
        except BlockingIOError:
            gevent.sleep(0)
    sender.get()


def test_send_to_nobody_says_closed(make_wire: Callable[..., Wire]) -> None:
    """A peer that closed its end of our output."""
    wire = make_wire()
    os.close(wire.output)
    with pytest.raises(TransportClosed):
        wire.transport.send(as_messages(b"x"))


def test_close_wakes_who_waits(make_wire: Callable[..., Wire]) -> None:
    """A waiting receive ends, a waiting send fails, and later ones at once."""
    wire = make_wire()
    receiver = gevent.spawn(wire.transport.receive, nothing)
    sender = gevent.spawn(wire.transport.send, as_messages(b"x" * 1_000_000))
    gevent.sleep(0)
    wire.transport.close()
    wire.transport.close()
    assert receiver.get() is None
    with pytest.raises(TransportClosed):
        sender.get()
    assert wire.transport.receive(nothing) is None
    with pytest.raises(TransportClosed):
        wire.transport.send(as_messages(b"x"))


def test_close_closes_both_descriptors(make_wire: Callable[..., Wire]) -> None:
    """The peer sees our end on both pipes."""
    wire = make_wire()
    wire.transport.close()
    assert os.read(wire.output, 1) == b""
    with pytest.raises(BrokenPipeError):
        os.write(wire.input, b"x")


def test_pipes_block_again_after_the_end(make_wire: Callable[..., Wire]) -> None:
    """The flag that others share is put back."""
    wire = make_wire()
    shared = [os.dup(fd) for fd in wire.fds]
    assert not any(os.get_blocking(fd) for fd in shared)
    wire.transport.close()
    assert all(os.get_blocking(fd) for fd in shared)
    for fd in shared:
        os.close(fd)


def test_files_will_do(tmp_path: Path) -> None:
    """Input from a file and output to one."""
    source = tmp_path / "in"
    source.write_bytes(b"one\ntwo\n")
    sink = tmp_path / "out"
    transport = StdioTransport(os.open(source, os.O_RDONLY), os.open(sink, os.O_WRONLY | os.O_CREAT), LIMIT)
    assert messages(transport) == [b"one", b"two"]
    transport.send(as_messages(b"done"))
    transport.close()
    assert sink.read_bytes() == b"done\n"


# ---- standard streams ------------------------------------------------------------------------------------------------

CLAIM = """
import os, subprocess, sys
from execsrv.transports.stdio import claim_stdio
read_fd, write_fd = claim_stdio()
print("stray", flush=True)
subprocess.run(["sh", "-c", "cat; echo child"], close_fds=False)
os.write(write_fd, b"got " + os.read(read_fd, 100))
print(sorted([read_fd, write_fd])[0] > 2, os.get_inheritable(read_fd), os.get_inheritable(write_fd))
"""

SEAL = """
import fcntl, os, sys
from execsrv.transports.stdio import seal_descriptors
seal_descriptors()
print([os.get_inheritable(int(fd)) for fd in sys.argv[1:]], [os.readlink(f"/proc/self/fd/{fd}") for fd in (0, 2)])
"""


def test_claimed_streams_are_out_of_reach() -> None:
    """Neither a print nor a child gets at the protocol's input and output."""
    done = subprocess.run([sys.executable, "-c", CLAIM], input=b"message", capture_output=True, timeout=PATIENCE)
    assert done.stdout == b"got message"
    assert done.stderr.split() == [b"stray", b"child", b"True", b"False", b"False"]


def test_inherited_descriptors_are_sealed_and_closed_ones_opened() -> None:
    """0 and 2 were closed, another was inherited: none of them can do harm."""
    inherited = os.open(os.devnull, os.O_RDONLY)
    script = 'exec "$@" <&- 2>&-'
    command = ["sh", "-c", script, "sh", sys.executable, "-c", SEAL, str(inherited)]
    done = subprocess.run(command, pass_fds=[inherited], stdout=subprocess.PIPE, timeout=PATIENCE)
    os.close(inherited)
    assert done.stdout == b"[False] ['/dev/null', '/dev/null']\n"
