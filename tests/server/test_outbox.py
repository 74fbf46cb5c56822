"""The order in which messages leave, and who waits for room."""

from __future__ import annotations

import gevent
import pytest

from execsrv.server.outbox import BATCH_ANSWERS, BATCH_BYTES, MAX_ANSWER_BYTES, MAX_OUTPUT_BYTES, Outbox

FULL = b"x" * MAX_OUTPUT_BYTES


@pytest.fixture
def outbox() -> Outbox:
    """An outbox."""
    return Outbox()


def put_in_turn(outbox: Outbox, message: bytes) -> gevent.Greenlet:
    """A greenlet that waits for its turn, or has already put the message."""

    def put() -> None:
        with outbox.turn():
            outbox.put_output(message)

    greenlet = gevent.spawn(put)
    gevent.idle()
    return greenlet


def test_many_answers_are_a_batch() -> None:
    """Sixteen, whatever their size, and no output."""
    outbox = Outbox()
    for _ in range(20):
        outbox.put_output(b"x")
    for _ in range(BATCH_ANSWERS):
        assert not outbox.has_batch
        outbox.put_answer(b"x")
    assert outbox.has_batch
    outbox.take()
    assert not outbox.has_batch


def test_answers_overtake_output(outbox: Outbox) -> None:
    """Answers leave first; both kinds keep their own order."""
    for message in (b"o1", b"o2"):
        outbox.put_output(message)
    for message in (b"a1", b"a2"):
        outbox.put_answer(message)
    assert outbox.take() == [b"a1", b"a2", b"o1", b"o2"]


def test_an_ordered_answer_stays_behind_the_output_before_it(outbox: Outbox) -> None:
    """And before the output after it."""
    outbox.put_output(b"o1")
    outbox.put_answer(b"ordered", ordered=True)
    outbox.put_output(b"o2")
    outbox.put_answer(b"a")
    assert outbox.take() == [b"a", b"o1", b"ordered", b"o2"]


def test_take_waits_for_a_message(outbox: Outbox) -> None:
    """Whoever takes sleeps until there is something."""
    taker = gevent.spawn(outbox.take)
    gevent.idle()
    assert not taker.ready()
    outbox.put_output(b"o")
    assert taker.get(timeout=10) == [b"o"]


def test_small_messages_leave_together_up_to_the_batch_size(outbox: Outbox) -> None:
    """An answer that comes meanwhile is at most one batch late."""
    piece = b"x" * (BATCH_BYTES // 4)
    for _ in range(6):
        outbox.put_output(piece)
    assert outbox.take() == [piece] * 4
    outbox.put_answer(b"a")
    assert outbox.take() == [b"a", piece, piece]


def test_it_is_idle_once_everything_was_sent(outbox: Outbox) -> None:
    """What is being sent is not sent yet."""
    assert outbox.is_idle
    outbox.put_answer(b"a")
    assert not outbox.is_idle
    outbox.take()
    assert not outbox.is_idle
    taker = gevent.spawn(outbox.take)
    gevent.idle()
    assert outbox.is_idle
    outbox.close(discard=False)
    assert taker.get(timeout=10) == []


def test_a_turn_comes_when_output_was_sent(outbox: Outbox) -> None:
    """A full outbox makes the pump wait, also while the message is on its way."""
    outbox.put_output(FULL)
    pump = put_in_turn(outbox, b"next")
    assert not pump.ready()
    assert outbox.take() == [FULL]
    gevent.idle()
    assert not pump.ready()
    taker = gevent.spawn(outbox.take)
    assert taker.get(timeout=10) == [b"next"]


def test_answers_do_not_take_the_room_of_output(outbox: Outbox) -> None:
    """Nor does output take theirs."""
    outbox.put_answer(FULL)
    outbox.put_answer(FULL, ordered=True)
    pump = put_in_turn(outbox, FULL)
    assert pump.ready()
    gevent.spawn(outbox.wait_for_answer_room).get(timeout=10)


def test_turns_come_in_the_order_of_asking(outbox: Outbox) -> None:
    """Also for one who asks when there is room but others wait."""
    outbox.put_output(FULL)
    for name in (b"a", b"b", b"c"):
        put_in_turn(outbox, name)
    outbox.take()
    taken: list[bytes] = []

    def ask_late() -> None:
        taken.extend(outbox.take())
        put_in_turn(outbox, b"d")
        while len(taken) < 4:
            taken.extend(outbox.take())

    gevent.spawn(ask_late).get(timeout=10)
    assert taken == [b"a", b"b", b"c", b"d"]


def test_the_last_one_is_not_forgotten(outbox: Outbox) -> None:
    """One batch that leaves makes room for all who wait, as long as there is room."""
    outbox.put_output(FULL)
    pumps = [put_in_turn(outbox, b"small") for _ in range(20)]
    assert not any(pump.ready() for pump in pumps)
    outbox.take()
    gevent.spawn(outbox.take).get(timeout=10)
    gevent.joinall(pumps, timeout=10)
    assert all(pump.successful() for pump in pumps)


def test_output_stays_bounded_when_many_wait(outbox: Outbox) -> None:
    """After one batch as many pumps go on as fit, and the others wait on."""
    outbox.put_output(FULL)
    pumps = [put_in_turn(outbox, FULL) for _ in range(3)]
    outbox.take()
    gevent.spawn(outbox.take).get(timeout=10)
    gevent.idle()
    assert sum(pump.ready() for pump in pumps) == 1
    for _ in range(2):
        gevent.spawn(outbox.take).get(timeout=10)
    gevent.joinall(pumps, timeout=10, raise_error=True)


def test_a_killed_pump_takes_no_turn_with_it(outbox: Outbox) -> None:
    """Neither while it waits nor when it has just been woken."""
    outbox.put_output(FULL)
    doomed = [put_in_turn(outbox, b"never") for _ in range(2)]
    pump = put_in_turn(outbox, b"next")
    doomed[0].kill()
    outbox.take()
    doomed[1].kill(block=False)  # it dies when the hub runs next, and has its turn before that
    taker = gevent.spawn(outbox.take)
    gevent.idle()
    assert taker.get(timeout=10) == [b"next"]
    assert pump.successful()


def test_an_error_within_a_turn_passes_it_on(outbox: Outbox) -> None:
    """A stream that fails does not hold up the others."""
    outbox.put_output(FULL)

    def fail() -> None:
        with pytest.raises(ValueError), outbox.turn():
            raise ValueError

    failing = gevent.spawn(fail)
    gevent.idle()
    pump = put_in_turn(outbox, b"next")
    outbox.take()
    gevent.spawn(outbox.take).get(timeout=10)
    gevent.joinall([failing, pump], timeout=10, raise_error=True)
    assert pump.ready()


@pytest.mark.parametrize("ordered", [False, True])
def test_the_room_for_answers_comes_back_when_they_were_sent(outbox: Outbox, ordered: bool) -> None:
    """Whichever queue they were in."""
    outbox.put_answer(b"x" * MAX_ANSWER_BYTES, ordered)
    reader = gevent.spawn(outbox.wait_for_answer_room)
    outbox.take()
    gevent.idle()
    assert not reader.ready()
    taker = gevent.spawn(outbox.take)
    reader.get(timeout=10)
    outbox.close(discard=True)
    taker.get(timeout=10)


def test_a_closed_outbox_gives_out_what_it_holds_and_takes_no_more(outbox: Outbox) -> None:
    """Then take returns nothing, again and again."""
    outbox.put_output(b"o")
    outbox.close(discard=False)
    outbox.put_answer(b"late")
    outbox.put_output(b"late")
    assert [outbox.take(), outbox.take(), outbox.take()] == [[b"o"], [], []]


def test_a_closed_outbox_can_throw_away_what_it_holds(outbox: Outbox) -> None:
    """The peer is gone."""
    outbox.put_output(b"o")
    outbox.put_answer(b"a")
    outbox.close(discard=True)
    assert outbox.take() == []


@pytest.mark.parametrize("discard", [False, True])
def test_close_wakes_everybody(outbox: Outbox, discard: bool) -> None:
    """Pumps get their turn, since nothing is kept any more; the reader and the writer go on."""
    outbox.put_output(FULL)
    outbox.put_answer(b"x" * MAX_ANSWER_BYTES)
    waiting = [put_in_turn(outbox, b"lost"), put_in_turn(outbox, b"lost"), gevent.spawn(outbox.wait_for_answer_room)]
    gevent.idle()
    assert not any(greenlet.ready() for greenlet in waiting)
    outbox.close(discard)
    gevent.joinall(waiting, timeout=10, raise_error=True)
    assert all(greenlet.ready() for greenlet in waiting)
