"""Greenlets that wait for one another."""

from __future__ import annotations

import gevent
import pytest

from execsrv.server.condition import Condition


@pytest.fixture
def condition() -> Condition:
    """A condition."""
    return Condition()


def wait_in_background(condition: Condition, log: list[str], name: str) -> gevent.Greenlet:
    """A greenlet that waits already and then writes its name down."""

    def wait() -> None:
        condition.wait()
        log.append(name)

    greenlet = gevent.spawn(wait)
    gevent.idle()
    return greenlet


def test_wait_tells_whether_it_was_notified(condition: Condition) -> None:
    """True after a notification, False when the time was up."""
    waiter = gevent.spawn(condition.wait, 10)
    gevent.idle()
    condition.notify()
    assert waiter.get(timeout=10) is True
    assert condition.wait(0.001) is False


def test_notify_wakes_the_one_who_waits_longest(condition: Condition) -> None:
    """One notification, one greenlet, first come first served."""
    log: list[str] = []
    greenlets = [wait_in_background(condition, log, name) for name in "abc"]
    for expected in ("a", "ab", "abc"):
        condition.notify()
        gevent.idle()
        assert "".join(log) == expected
    gevent.joinall(greenlets, raise_error=True)


def test_notify_all_wakes_everybody_in_order(condition: Condition) -> None:
    """All who wait now, in the order of their coming."""
    log: list[str] = []
    greenlets = [wait_in_background(condition, log, name) for name in "abc"]
    condition.notify_all()
    gevent.joinall(greenlets, timeout=10, raise_error=True)
    assert log == ["a", "b", "c"]


def test_a_notification_is_not_kept_for_later(condition: Condition) -> None:
    """Only who waits already is woken."""
    condition.notify()
    condition.notify_all()
    assert condition.wait(0.001) is False


def test_one_that_is_killed_before_its_turn_passes_it_on(condition: Condition) -> None:
    """A notification is not lost with the greenlet that it was for."""
    log: list[str] = []
    first, second = (wait_in_background(condition, log, name) for name in "ab")
    first.kill(block=False)  # it dies when the hub runs next, and is notified before that
    condition.notify()
    second.join(timeout=10)
    assert log == ["b"]


def test_one_that_is_killed_while_it_waits_leaves_the_queue(condition: Condition) -> None:
    """The next notification goes to somebody who lives."""
    log: list[str] = []
    first, second = (wait_in_background(condition, log, name) for name in "ab")
    first.kill()
    condition.notify()
    second.join(timeout=10)
    assert log == ["b"]


def test_wait_for_looks_again_after_each_notification(condition: Condition) -> None:
    """It returns when the predicate holds, not when it is merely notified."""
    seen: list[int] = []
    waiter = gevent.spawn(condition.wait_for, lambda: len(seen) >= 2, 10)
    gevent.idle()
    seen.append(1)
    condition.notify_all()
    gevent.idle()
    assert not waiter.ready()
    seen.append(2)
    condition.notify_all()
    assert waiter.get(timeout=10) is True


def test_wait_for_does_not_wait_for_what_is_so_already(condition: Condition) -> None:
    """Also without any time."""
    assert condition.wait_for(lambda: True, 0) is True
    assert condition.wait_for(lambda: False, 0) is False


def test_wait_for_gives_up_when_the_time_is_up(condition: Condition) -> None:
    """Notifications that change nothing do not prolong it."""
    done = False

    def disturb() -> None:
        while not done:
            condition.notify_all()
            gevent.sleep(0.001)

    disturber = gevent.spawn(disturb)
    assert condition.wait_for(lambda: False, 0.02) is False
    done = True
    disturber.get(timeout=10)
