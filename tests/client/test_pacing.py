"""Tests of execsrv.client.pacing."""

from __future__ import annotations

import threading

import pytest
from background import Background

from execsrv.client.pacing import ACK_BYTES, Pacer
from execsrv.protocol.events import ProcessOutput

SMALL, LARGE = 10, ACK_BYTES


class FakeTaker:
    """One who takes output on a given thread."""

    def __init__(self, thread: int | None = None) -> None:
        self.thread = thread


class Acks:
    """A pacer of the process ``p`` and the seqs that it acknowledges."""

    def __init__(self) -> None:
        self.seqs: list[int] = []
        self.pacer = Pacer(self._acknowledge)

    def _acknowledge(self, process_id: str, seq: int) -> None:
        assert process_id == "p"
        self.seqs.append(seq)


@pytest.fixture
def acks() -> Acks:
    """A pacer whose acknowledgements are recorded."""
    return Acks()


def output(seq: int, size: int = SMALL) -> ProcessOutput:
    """Output number ``seq``."""
    return ProcessOutput("p", seq, "stdout", bytes(size))


def test_output_that_nobody_wants_is_acknowledged_at_once(acks: Acks) -> None:
    """Dropped output must not hold the process."""
    acks.pacer.arrived(output(1), [])
    acks.pacer.arrived(output(2), [])
    assert acks.seqs == [1, 2]


def test_untaken_output_is_not_acknowledged(acks: Acks) -> None:
    """An idle taker holds the process."""
    acks.pacer.arrived(output(1, LARGE), [FakeTaker()])
    assert acks.seqs == []


def test_taken_output_is_acknowledged_when_it_is_worth_it(acks: Acks) -> None:
    """As long as more waits, small pieces are acknowledged together; the last one at once."""
    taker = FakeTaker()
    for seq in range(1, 5):
        acks.pacer.arrived(output(seq), [taker])
    acks.pacer.taken(taker, output(1))
    acks.pacer.taken(taker, output(2))
    assert acks.seqs == []
    for seq in (3, 4):
        acks.pacer.taken(taker, output(seq))
    assert acks.seqs == [4]


def test_large_output_is_acknowledged_while_more_waits(acks: Acks) -> None:
    """A quarter of the window is worth a message."""
    taker = FakeTaker()
    for seq in (1, 2):
        acks.pacer.arrived(output(seq, LARGE), [taker])
    acks.pacer.taken(taker, output(1, LARGE))
    assert acks.seqs == [1]


def test_slowest_taker_decides(acks: Acks) -> None:
    """What one has taken waits for the other."""
    fast, slow = FakeTaker(), FakeTaker()
    for seq in (1, 2):
        acks.pacer.arrived(output(seq, LARGE), [fast, slow])
    acks.pacer.taken(fast, output(1, LARGE))
    acks.pacer.taken(fast, output(2, LARGE))
    assert acks.seqs == []
    acks.pacer.taken(slow, output(1, LARGE))
    assert acks.seqs == [1]


def test_released_taker_holds_nothing(acks: Acks) -> None:
    """A receiver that is closed lets the process go on."""
    gone = FakeTaker()
    acks.pacer.arrived(output(1), [gone])
    acks.pacer.release(gone)
    assert acks.seqs == [1]


def test_taker_that_comes_back_is_counted_from_there(acks: Acks) -> None:
    """What a taker was not meant to get in between is not waited for."""
    taker = FakeTaker()
    acks.pacer.arrived(output(1), [taker])
    acks.pacer.taken(taker, output(1))
    acks.pacer.arrived(output(2), [])
    acks.pacer.arrived(output(3), [taker])
    acks.pacer.taken(taker, output(3))
    assert acks.seqs == [1, 2, 3]


def test_what_passed_a_taker_by_is_not_counted_against_it(acks: Acks) -> None:
    """Also when it comes back, a quarter of the window is worth a message while more waits."""
    taker = FakeTaker()
    acks.pacer.arrived(output(1), [taker])
    acks.pacer.taken(taker, output(1))
    acks.pacer.arrived(output(2, LARGE), [])
    for seq in (3, 4):
        acks.pacer.arrived(output(seq, LARGE), [taker])
    acks.pacer.taken(taker, output(3, LARGE))
    assert acks.seqs == [1, 2, 3]


def test_old_output_of_a_taker_that_came_back_changes_nothing(acks: Acks) -> None:
    """Who was left out for a while may still read what came then; it was acknowledged long ago."""
    handle, receiver = FakeTaker(), FakeTaker()
    for seq, taker in ((1, handle), (2, receiver), (3, receiver)):
        acks.pacer.arrived(output(seq, LARGE), [taker])
        acks.pacer.taken(taker, output(seq, LARGE))
    acks.pacer.arrived(output(4, LARGE), [handle])
    for seq in (2, 3):
        acks.pacer.taken(handle, output(seq, LARGE))
    assert acks.seqs == [1, 2, 3]
    acks.pacer.taken(handle, output(4, LARGE))
    assert acks.seqs == [1, 2, 3, 4]


def test_thread_that_waits_for_the_process_does_not_hold_it(acks: Acks) -> None:
    """A callback that waits for its own process would else wait for itself."""
    taker = FakeTaker(threading.get_ident())
    acks.pacer.arrived(output(1), [taker])
    with acks.pacer.waiting():
        assert acks.seqs == [1]
        acks.pacer.arrived(output(2), [taker])
        assert acks.seqs == [1, 2]
    acks.pacer.arrived(output(3), [taker])
    assert acks.seqs == [1, 2]


def test_thread_of_another_taker_may_wait(acks: Acks) -> None:
    """A wait in one thread does not set free what another thread has to take."""
    other = Background(threading.get_ident)
    taker = FakeTaker(other.result())
    acks.pacer.arrived(output(1), [taker])
    with acks.pacer.waiting():
        acks.pacer.arrived(output(2), [taker])
    assert acks.seqs == []


def test_waiting_can_let_a_taker_go(acks: Acks) -> None:
    """Who waits for the end of a process lets its unread handle go, for so long."""
    handle = FakeTaker()
    acks.pacer.arrived(output(1), [handle])
    with acks.pacer.waiting(handle):
        assert acks.seqs == [1]
    acks.pacer.arrived(output(2), [handle])
    assert acks.seqs == [1]


def test_late_taking_never_takes_an_acknowledgement_back(acks: Acks) -> None:
    """Reading what was let go before changes nothing."""
    handle = FakeTaker()
    with acks.pacer.waiting(handle):
        for seq in (1, 2, 3):
            acks.pacer.arrived(output(seq), [handle])
    acks.pacer.taken(handle, output(1))
    assert acks.seqs == [1, 2, 3]
