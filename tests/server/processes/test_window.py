"""How far output may run ahead."""

from __future__ import annotations

import gevent
import pytest

from execsrv.server.processes.window import LEAST_BYTES, Window


def waits(window: Window) -> gevent.Greenlet:
    """A greenlet that waits for the window, if that is shut."""
    greenlet = gevent.spawn(window.wait)
    gevent.idle()
    return greenlet


def test_no_window_is_never_shut() -> None:
    """Nothing is counted."""
    window = Window(None)
    window.sent(1, 10**9)
    assert window.room(65536) == 65536
    assert waits(window).ready()


def test_room_shrinks_with_what_was_sent() -> None:
    """Never more than is wanted."""
    window = Window(1000)
    assert (window.room(300), window.room(3000)) == (300, 1000)
    window.sent(1, 600)
    assert window.room(3000) == 400
    window.sent(2, 400)
    assert window.room(3000) == 0


def test_tiny_outputs_count_for_more() -> None:
    """So that what is not acknowledged always fits into what is retained."""
    window = Window(3 * LEAST_BYTES)
    for seq in (1, 2, 3):
        assert window.room(1) == 1
        window.sent(seq, 1)
    assert window.room(1) == 0


@pytest.mark.parametrize("seq, room", [(0, 0), (1, 600), (2, 600), (3, 1000), (99, 1000)])
def test_an_ack_counts_for_everything_up_to_its_seq(seq: int, room: int) -> None:
    """Also for a seq that was no output."""
    window = Window(1000)
    window.sent(1, 600)
    window.sent(3, 400)
    window.acknowledge(seq)
    assert window.room(3000) == room


def test_an_old_ack_changes_nothing() -> None:
    """Acks are cumulative."""
    window = Window(1000)
    window.sent(1, 500)
    window.acknowledge(1)
    window.sent(2, 500)
    window.acknowledge(1)
    window.acknowledge(0)
    assert window.room(3000) == 500


def test_an_ack_wakes_all_streams() -> None:
    """Each then looks for itself whether there is room."""
    window = Window(10)
    window.sent(1, 10)
    streams = [waits(window), waits(window)]
    window.acknowledge(0)
    gevent.idle()
    assert not any(stream.ready() for stream in streams)
    window.acknowledge(1)
    gevent.joinall(streams, timeout=10, raise_error=True)
    assert all(stream.ready() for stream in streams)


def test_a_lifted_window_stays_open() -> None:
    """Who waits goes on, and no ack is needed any more."""
    window = Window(10)
    window.sent(1, 10)
    stream = waits(window)
    window.lift()
    stream.get(timeout=10)
    window.sent(2, 10**6)
    assert window.room(65536) == 65536
