"""Calls in their lanes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import gevent
import pytest
from gevent.event import Event

from execsrv.server.lanes import Call, Lane, Lanes, Run
from execsrv.server.threads import Threads


@pytest.fixture
def threads() -> Iterator[Threads]:
    """Threads."""
    threads = Threads(4)
    yield threads
    threads.close()


@pytest.fixture
def lanes(threads: Threads) -> Lanes:
    """Lanes that admit every call."""
    return Lanes(threads, admit=lambda: True)


class Log(list[Any]):
    """What calls gave, in the order in which they were finished."""

    def put(self, lanes: Lanes, lane: Lane, run: Run, at_once: Run | None = None) -> None:
        """Run a call there; its outcome is that of ``run``."""
        lanes.put(Call(run, lane, at_once), lambda run: run(), self.append)

    def wait(self, length: int) -> list[Any]:
        """Wait until there are so many."""
        with gevent.Timeout(10):
            while len(self) < length:
                gevent.sleep(0.001)
        return self


def test_a_prompt_call_is_finished_when_put_returns(lanes: Lanes) -> None:
    """In the same greenlet."""
    log = Log()
    log.put(lanes, Lane.PROMPT, gevent.getcurrent)
    assert log == [gevent.getcurrent()]


def test_a_call_that_may_wait_has_a_greenlet(lanes: Lanes) -> None:
    """Others of its kind overtake it."""
    log, go = Log(), Event()
    log.put(lanes, Lane.OWN, lambda: go.wait(10) and "slow")
    log.put(lanes, Lane.OWN, lambda: "quick")
    assert log == []
    assert log.wait(1) == ["quick"]
    go.set()
    assert log.wait(2) == ["quick", "slow"]


def test_file_calls_run_on_threads_one_after_the_other(lanes: Lanes) -> None:
    """The next one begins when the one before is done, in the order of their coming; the hub goes on."""
    log, events, go = Log(), [], threading.Event()

    def slow() -> int:
        events.append("slow begins")
        go.wait(10)
        events.append("slow ends")
        return threading.get_ident()

    log.put(lanes, Lane.FILES, slow)
    for number in range(3):
        log.put(lanes, Lane.FILES, lambda number=number: events.append(number))
    with gevent.Timeout(10):
        while not events:
            gevent.sleep(0.001)
    assert events == ["slow begins"]
    go.set()
    assert log.wait(4)[0] != threading.get_ident()
    assert events == ["slow begins", "slow ends", 0, 1, 2]


def test_the_lane_works_again_after_it_was_empty(lanes: Lanes) -> None:
    """As often as it likes."""
    log = Log()
    for number in range(3):
        log.put(lanes, Lane.FILES, lambda number=number: number)
        assert log.wait(number + 1) == list(range(number + 1))


def test_what_need_not_wait_needs_no_thread(lanes: Lanes) -> None:
    """It is finished when put returns; what can't be known at once goes on a thread."""
    log = Log()
    log.put(lanes, Lane.FILES, refuse, at_once=lambda: "at once")
    assert log == ["at once"]
    log.put(lanes, Lane.FILES, lambda: "later", at_once=lambda: None)
    assert log == ["at once"]
    assert log.wait(2) == ["at once", "later"]


def test_file_calls_do_not_overtake_each_other(lanes: Lanes) -> None:
    """What need not wait does so behind one that must."""
    log, go = Log(), threading.Event()
    log.put(lanes, Lane.FILES, lambda: go.wait(10) and "first")
    log.put(lanes, Lane.FILES, lambda: "second", at_once=refuse)
    gevent.idle()
    assert log == []
    go.set()
    assert log.wait(2) == ["first", "second"]


def test_a_call_that_is_not_admitted_is_dropped(threads: Threads) -> None:
    """Neither run nor finished; those behind it are asked for themselves."""
    answers: list[Callable[[], bool]] = [lambda: False, lambda: True]
    lanes, log = Lanes(threads, admit=lambda: answers.pop(0)()), Log()
    log.put(lanes, Lane.FILES, refuse)
    log.put(lanes, Lane.FILES, lambda: "admitted")
    assert log.wait(1) == ["admitted"] and not answers


def test_a_call_is_answered_when_there_is_no_thread(threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    """And those behind it have their turn."""

    def no_thread(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    def outcome_of(run: Run) -> Any:
        try:
            return run()
        except RuntimeError as error:
            return str(error)

    lanes, log = Lanes(threads, admit=lambda: True), Log()
    with monkeypatch.context() as patched:
        patched.setattr("execsrv.server.threads._start_thread", no_thread)
        lanes.put(Call(refuse, Lane.FILES), outcome_of, log.append)
        assert log.wait(1) == ["can't start new thread"]
    log.put(lanes, Lane.FILES, lambda: "later")
    assert log.wait(2)[1] == "later"


def refuse() -> Any:
    """Must not be called."""
    raise AssertionError("called")
