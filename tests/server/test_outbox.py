"""The order in which messages leave, and who waits for room."""

from __future__ import annotations

import gevent
import pytest

from execsrv.jsonrpc import Encoded
from execsrv.server.outbox import BATCH_ANSWERS, BATCH_BYTES, MAX_ANSWER_BYTES, MAX_OUTPUT_BYTES, Outbox

FULL = Encoded(b"x" * MAX_OUTPUT_BYTES)


@pytest.fixture
def outbox() -> Outbox:
    """An outbox."""
    return Outbox()


def take(outbox: Outbox) -> list[bytes]:
    """Take what is to be sent next."""
    return [bytes(message) for message in outbox.take()]


def send(outbox: Outbox) -> list[bytes]:
    """Send what is to be sent next."""
    messages = take(outbox)
    outbox.sent()
    return messages


def put_in_turn(outbox: Outbox, message: Encoded) -> gevent.Greenlet:
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
        outbox.put_output(Encoded(b"x"))
    for _ in range(BATCH_ANSWERS):
        assert not outbox.has_batch
        outbox.put_answer(Encoded(b"x"))
    assert outbox.has_batch
    send(outbox)
    assert not outbox.has_batch


def test_a_large_answer_is_a_batch(outbox: Outbox) -> None:
    """It is not worth waiting for others."""
    outbox.put_answer(Encoded(b"x" * (BATCH_BYTES - 1)))
    assert not outbox.has_batch
    outbox.put_answer(Encoded(b"x"))
    assert outbox.has_batch


def test_answers_overtake_output(outbox: Outbox) -> None:
    """Answers leave first; both kinds keep their own order."""
    for message in (b"o1", b"o2"):
        outbox.put_output(Encoded(message))
    for message in (b"a1", b"a2"):
        outbox.put_answer(Encoded(message))
    assert take(outbox) == [b"a1", b"a2", b"o1", b"o2"]


def test_an_ordered_answer_stays_behind_the_output_before_it(outbox: Outbox) -> None:
    """And before the output after it."""
    outbox.put_output(Encoded(b"o1"))
    outbox.put_answer(Encoded(b"ordered"), ordered=True)
    outbox.put_output(Encoded(b"o2"))
    outbox.put_answer(Encoded(b"a"))
    assert take(outbox) == [b"a", b"o1", b"ordered", b"o2"]


def test_nothing_is_taken_while_something_is_being_sent(outbox: Outbox) -> None:
    """Else it would overtake that."""
    assert take(outbox) == []
    outbox.put_answer(Encoded(b"a1"))
    assert take(outbox) == [b"a1"]
    outbox.put_answer(Encoded(b"a2"))
    assert take(outbox) == []
    outbox.sent()
    assert take(outbox) == [b"a2"]


def test_the_sender_waits_for_a_call(outbox: Outbox) -> None:
    """A message alone does not wake it, since others may follow."""
    sender = gevent.spawn(outbox.wait_for_call)
    gevent.idle()
    outbox.put_output(Encoded(b"o"))
    gevent.idle()
    assert not sender.ready()
    outbox.call_sender()
    assert sender.get(timeout=10)


def test_the_sender_is_called_for_what_somebody_could_not_send(outbox: Outbox) -> None:
    """There is nothing more to be taken, but it is not sent."""
    sender = gevent.spawn(outbox.wait_for_call)
    outbox.put_output(Encoded(b"o"))
    outbox.take()
    outbox.call_sender()
    assert sender.get(timeout=10)


def test_small_messages_leave_together_up_to_the_batch_size(outbox: Outbox) -> None:
    """An answer that comes meanwhile is at most one batch late."""
    piece = b"x" * (BATCH_BYTES // 4)
    for _ in range(6):
        outbox.put_output(Encoded(piece))
    assert send(outbox) == [piece] * 4
    outbox.put_answer(Encoded(b"a"))
    assert send(outbox) == [b"a", piece, piece]


def test_it_is_idle_once_everything_was_sent(outbox: Outbox) -> None:
    """What is being sent is not sent yet."""
    assert outbox.is_idle
    outbox.put_answer(Encoded(b"a"))
    assert not outbox.is_idle
    outbox.take()
    assert not outbox.is_idle
    outbox.sent()
    assert outbox.is_idle


def test_a_turn_comes_when_output_was_sent(outbox: Outbox) -> None:
    """A full outbox makes the pump wait, also while the message is on its way."""
    outbox.put_output(FULL)
    pump = put_in_turn(outbox, Encoded(b"next"))
    assert not pump.ready()
    outbox.take()
    gevent.idle()
    assert not pump.ready()
    outbox.sent()
    pump.get(timeout=10)
    assert take(outbox) == [b"next"]


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
        put_in_turn(outbox, Encoded(name))
    send(outbox)
    put_in_turn(outbox, Encoded(b"d"))
    assert take(outbox) == [b"a", b"b", b"c", b"d"]


def test_the_last_one_is_not_forgotten(outbox: Outbox) -> None:
    """One batch that leaves makes room for all who wait, as long as there is room."""
    outbox.put_output(FULL)
    pumps = [put_in_turn(outbox, Encoded(b"small")) for _ in range(20)]
    assert not any(pump.ready() for pump in pumps)
    send(outbox)
    gevent.joinall(pumps, timeout=10)
    assert all(pump.successful() for pump in pumps)


def test_output_stays_bounded_when_many_wait(outbox: Outbox) -> None:
    """After one batch as many pumps go on as fit, and the others wait on."""
    outbox.put_output(FULL)
    pumps = [put_in_turn(outbox, FULL) for _ in range(3)]
    send(outbox)
    gevent.idle()
    assert sum(pump.ready() for pump in pumps) == 1
    for _ in range(2):
        send(outbox)
        gevent.idle()
    gevent.joinall(pumps, timeout=10, raise_error=True)


def test_a_killed_pump_takes_no_turn_with_it(outbox: Outbox) -> None:
    """Neither while it waits nor when it has just been woken."""
    outbox.put_output(FULL)
    doomed = [put_in_turn(outbox, Encoded(b"never")) for _ in range(2)]
    pump = put_in_turn(outbox, Encoded(b"next"))
    doomed[0].kill()
    doomed[1].kill(block=False)  # it dies when the hub runs next, and has its turn before that
    send(outbox)
    pump.get(timeout=10)
    assert take(outbox) == [b"next"]


def test_an_error_within_a_turn_passes_it_on(outbox: Outbox) -> None:
    """A stream that fails does not hold up the others."""
    outbox.put_output(FULL)

    def fail() -> None:
        with pytest.raises(ValueError), outbox.turn():
            raise ValueError

    failing = gevent.spawn(fail)
    gevent.idle()
    pump = put_in_turn(outbox, Encoded(b"next"))
    send(outbox)
    gevent.joinall([failing, pump], timeout=10, raise_error=True)
    assert pump.ready()


@pytest.mark.parametrize("ordered", [False, True])
def test_the_room_for_answers_comes_back_when_they_were_sent(outbox: Outbox, ordered: bool) -> None:
    """Whichever queue they were in."""
    outbox.put_answer(Encoded(b"x" * MAX_ANSWER_BYTES), ordered)
    reader = gevent.spawn(outbox.wait_for_answer_room)
    outbox.take()
    gevent.idle()
    assert not reader.ready()
    outbox.sent()
    reader.get(timeout=10)


def test_a_closed_outbox_gives_out_what_it_holds_and_takes_no_more(outbox: Outbox) -> None:
    """Then it has nothing, again and again, and the sender need not wait."""
    outbox.put_output(Encoded(b"o"))
    outbox.close(discard=False)
    outbox.put_answer(Encoded(b"late"))
    outbox.put_output(Encoded(b"late"))
    assert outbox.wait_for_call()
    assert [send(outbox), send(outbox), send(outbox)] == [[b"o"], [], []]
    assert not outbox.wait_for_call()


def test_a_closed_outbox_can_throw_away_what_it_holds(outbox: Outbox) -> None:
    """The peer is gone."""
    outbox.put_output(Encoded(b"o"))
    outbox.put_answer(Encoded(b"a"))
    outbox.close(discard=True)
    assert take(outbox) == []


@pytest.mark.parametrize("discard", [False, True])
def test_close_wakes_everybody(outbox: Outbox, discard: bool) -> None:
    """Pumps get their turn, since nothing is kept any more; the reader goes on."""
    outbox.put_output(FULL)
    outbox.put_answer(Encoded(b"x" * MAX_ANSWER_BYTES))
    waiting = [put_in_turn(outbox, Encoded(b"lost")) for _ in range(2)]
    waiting.append(gevent.spawn(outbox.wait_for_answer_room))
    gevent.idle()
    assert not any(greenlet.ready() for greenlet in waiting)
    outbox.close(discard)
    gevent.joinall(waiting, timeout=10, raise_error=True)
    assert all(greenlet.ready() for greenlet in waiting)


def test_close_wakes_the_sender(outbox: Outbox) -> None:
    """Nothing will ever be sent."""
    sender = gevent.spawn(outbox.wait_for_call)
    gevent.idle()
    outbox.close(discard=False)
    assert not sender.get(timeout=10)
