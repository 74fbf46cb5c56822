"""Tests of execsrv.client.outbox."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from background import Background

from execsrv.client.deadline import Deadline
from execsrv.client.outbox import QUEUE_BYTES, Outbox

WAIT = 20.0


class FakeStream:
    """Takes messages while ``open``, else makes the sender wait."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.open = threading.Event()
        self.sending = threading.Event()
        self.finished = threading.Event()
        self.aborted = threading.Event()
        self.error: OSError | None = None
        self._changed = threading.Condition()

    def messages(self, poke: object) -> Iterator[bytes]:
        """There are none."""
        yield from ()

    def send(self, message: bytes) -> None:
        """Take a message."""
        self.sending.set()
        assert self.open.wait(WAIT)
        if self.error:
            raise self.error
        with self._changed:
            self.sent.append(message)
            self._changed.notify_all()

    def wait_sent(self, number: int) -> None:
        """Wait until so many messages were sent."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.sent) >= number, WAIT)

    def finish(self) -> None:
        """Note it."""
        self.finished.set()

    def abort(self) -> None:
        """Note it."""
        self.aborted.set()

    def close(self) -> None:
        """Nothing to do."""


@pytest.fixture
def stream() -> FakeStream:
    """A stream that does not take anything yet."""
    return FakeStream()


@pytest.fixture
def outbox(stream: FakeStream) -> Iterator[Outbox]:
    """An outbox in front of ``stream``."""
    outbox = Outbox(stream)
    yield outbox
    stream.open.set()
    outbox.finish()
    outbox.join(WAIT)


def test_messages_leave_in_order(outbox: Outbox, stream: FakeStream) -> None:
    """Whatever way they came."""
    outbox.put(b"one", Deadline(WAIT))
    outbox.post(b"two")
    outbox.poke()
    outbox.put(b"three", Deadline(WAIT))
    stream.open.set()
    outbox.put(b"last", Deadline(WAIT))
    stream.wait_sent(5)
    assert stream.sent == [b"one", b"two", b"", b"three", b"last"]


def test_put_waits_for_room(outbox: Outbox, stream: FakeStream) -> None:
    """A message of any size is taken below the mark; the next one has to wait, or gives up in time."""
    outbox.put(b"in the stream's hands", Deadline(WAIT))
    assert stream.sending.wait(WAIT)
    assert outbox.put(bytes(2 * QUEUE_BYTES), Deadline(WAIT))
    assert not outbox.put(b"too soon", Deadline(0))
    waiting = Background(lambda: outbox.put(b"patient", Deadline(WAIT)))
    stream.open.set()
    assert waiting.result()
    stream.wait_sent(3)
    assert stream.sent[-1] == b"patient"


def test_post_never_waits(outbox: Outbox, stream: FakeStream) -> None:
    """Notifications get in behind a full queue."""
    outbox.put(b"in the stream's hands", Deadline(WAIT))
    assert stream.sending.wait(WAIT)
    outbox.put(bytes(QUEUE_BYTES), Deadline(WAIT))
    outbox.post(b"ack")
    stream.open.set()
    stream.wait_sent(3)
    assert stream.sent[-1] == b"ack"


def test_finish_drops_what_is_queued_and_ends_the_stream(outbox: Outbox, stream: FakeStream) -> None:
    """What was not sent is not sent any more, and who waited for room goes on."""
    outbox.put(b"in the stream's hands", Deadline(WAIT))
    assert stream.sending.wait(WAIT)
    outbox.put(bytes(QUEUE_BYTES), Deadline(WAIT))
    waiting = Background(lambda: outbox.put(b"dropped", Deadline(WAIT)))
    outbox.finish()
    assert waiting.result()
    stream.open.set()
    assert stream.finished.wait(WAIT)
    assert stream.sent == [b"in the stream's hands"]


def test_failed_write_cuts_the_connection_at_last(outbox: Outbox, stream: FakeStream) -> None:
    """The server may still explain itself; but one that does not is cut off."""
    stream.error = BrokenPipeError("gone")
    stream.open.set()
    outbox.put(b"hello", Deadline(WAIT))
    assert stream.sending.wait(WAIT)
    outbox.join(WAIT)
    assert stream.aborted.is_set()
    assert not stream.finished.is_set()
