"""Tests of execsrv.client.mailbox."""

from __future__ import annotations

import threading

import pytest
from background import Background

from execsrv.client.deadline import Deadline
from execsrv.client.errors import ClosedError
from execsrv.client.mailbox import Mailbox
from execsrv.client.notifications import Disconnected
from execsrv.protocol.events import ProcessOutput, ProcessStarted

WAIT = 20.0
EVENTS = [ProcessStarted("p", pid) for pid in range(5)]


def test_events_come_in_order() -> None:
    """First in, first out."""
    mailbox = Mailbox()
    for event in EVENTS:
        mailbox.put(event)
    assert [mailbox.take(Deadline(WAIT)) for _ in EVENTS] == EVENTS


def test_take_waits_for_an_event() -> None:
    """An event that comes later wakes the taker."""
    mailbox = Mailbox()
    taking = Background(lambda: mailbox.take(Deadline(WAIT)))
    mailbox.put(EVENTS[0])
    assert taking.result() == EVENTS[0]


def test_take_gives_up_in_time() -> None:
    """Without an event there is a TimeoutError, and no harm."""
    mailbox = Mailbox()
    with pytest.raises(TimeoutError):
        mailbox.take(Deadline(0.01))
    mailbox.put(EVENTS[0])
    assert mailbox.take(Deadline(WAIT)) == EVENTS[0]


def test_end_comes_after_what_is_there() -> None:
    """The rest is still given out, then the last event, then None for ever; nothing gets in any more."""
    mailbox, last = Mailbox(), Disconnected(ClosedError("gone"))
    mailbox.put(EVENTS[0])
    mailbox.end(last)
    mailbox.end()
    mailbox.put(EVENTS[1])
    assert [mailbox.take(Deadline(WAIT)) for _ in range(4)] == [EVENTS[0], last, None, None]


def test_end_wakes_the_taker() -> None:
    """Nobody waits for what cannot come."""
    mailbox = Mailbox()
    taking = Background(lambda: mailbox.take(Deadline(WAIT)))
    mailbox.end()
    assert taking.result() is None


def test_close_forgets_everything() -> None:
    """After ``close`` there is only the end."""
    mailbox = Mailbox()
    mailbox.put(EVENTS[0])
    mailbox.close()
    assert mailbox.take(Deadline(WAIT)) is None


def test_events_survive_a_way_over_the_disk() -> None:
    """A crowd that does not fit in memory comes back whole."""
    mailbox = Mailbox()
    crowd = [ProcessOutput("p", seq, "stdout", bytes([seq]) * 60_000) for seq in range(30)]
    for event in crowd:
        mailbox.put(event)
    assert [mailbox.take(Deadline(WAIT)) for _ in crowd] == crowd
    mailbox.close()


def test_thread_is_the_one_that_takes() -> None:
    """Until one has taken, it is the one that was said to."""
    mailbox = Mailbox(threading.get_ident())
    assert mailbox.thread == threading.get_ident()
    mailbox.put(EVENTS[0])
    thread = Background(lambda: (mailbox.take(Deadline(WAIT)), threading.get_ident())).result()[1]
    assert mailbox.thread == thread
