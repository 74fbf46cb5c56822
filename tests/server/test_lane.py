"""Jobs in a row."""

from __future__ import annotations

import gevent
from gevent.event import Event

from execsrv.server.lane import SerialLane


def test_jobs_run_one_after_the_other() -> None:
    """The next one begins when the one before is done, in the order of their coming."""
    lane, log, go, done = SerialLane(), [], Event(), Event()

    def slow() -> None:
        log.append("slow begins")
        go.wait(10)
        log.append("slow ends")

    lane.put(slow)
    for number in range(3):
        lane.put(lambda number=number: log.append(number))
    lane.put(done.set)
    gevent.idle()
    assert log == ["slow begins"]
    go.set()
    assert done.wait(10)
    assert log == ["slow begins", "slow ends", 0, 1, 2]


def test_put_does_not_run_the_job() -> None:
    """The caller goes on first."""
    lane, done = SerialLane(), Event()
    lane.put(done.set)
    assert not done.is_set()
    assert done.wait(10)


def test_a_lane_that_was_empty_works_again() -> None:
    """The greenlet ends with the last job and comes back with the next."""
    lane = SerialLane()
    for _ in range(3):
        done = Event()
        lane.put(done.set)
        assert done.wait(10)
        gevent.idle()


def test_a_job_may_put_another() -> None:
    """It runs behind those that wait already."""
    lane, log, done = SerialLane(), [], Event()
    lane.put(lambda: lane.put(lambda: (log.append("inner"), done.set())))
    lane.put(lambda: log.append("outer"))
    assert done.wait(10)
    assert log == ["outer", "inner"]
