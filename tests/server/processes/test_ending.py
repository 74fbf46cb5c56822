"""Ending real sessions: asked, then made to."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import TypeAlias

import gevent
import pytest
from gevent.event import Event

from execsrv.server.processes.ending import Ending

Lead: TypeAlias = Callable[[str], subprocess.Popen[bytes]]


@pytest.fixture
def lead(nothing_left: Callable[[], None]) -> Iterator[Lead]:
    """Starts the leader of a session, a shell that has said ``ready``; it is reaped at the end."""
    leaders: list[subprocess.Popen[bytes]] = []

    def start(script: str) -> subprocess.Popen[bytes]:
        leader = subprocess.Popen(["sh", "-c", script], start_new_session=True, stdout=subprocess.PIPE)
        leaders.append(leader)
        assert leader.stdout and leader.stdout.readline() == b"ready\n"
        return leader

    yield start
    for leader in leaders:
        leader.kill()
        leader.communicate()


def status(leader: subprocess.Popen[bytes], died: Callable[[int], None]) -> int:
    """How the leader has ended; it is not reaped."""
    died(leader.pid)
    told = os.waitid(os.P_PID, leader.pid, os.WEXITED | os.WNOWAIT)
    assert told
    return told.si_status


POLITE = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done"
STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.01; done"


def test_who_listens_ends_by_itself(lead: Lead, died: Callable[[int], None]) -> None:
    """And is not killed."""
    leader, killed = lead(POLITE), Event()
    ending = Ending(leader.pid, killed.set)
    ending.ask(1000)
    assert status(leader, died) == 5 and not killed.is_set()
    ending.cancel()


@pytest.mark.parametrize("graces", [[0.05], [0.05, 1000], [1000, 0.05], [0]])
def test_who_does_not_is_killed_at_the_earliest_time(
    lead: Lead, died: Callable[[int], None], graces: list[float]
) -> None:
    """Whatever is asked later."""
    leader, killed = lead(STUBBORN), Event()
    ending = Ending(leader.pid, killed.set)
    for grace in graces:
        ending.ask(grace)
    assert status(leader, died) == signal.SIGKILL and killed.is_set()
    ending.cancel()


def test_force_kills_at_once(lead: Lead, died: Callable[[int], None]) -> None:
    """Nobody's time matters any more."""
    leader, killed = lead(STUBBORN), Event()
    ending = Ending(leader.pid, killed.set)
    ending.ask(1000)
    ending.force()
    assert killed.is_set() and status(leader, died) == signal.SIGKILL
    with gevent.Timeout(10):
        ending.wait_for_survivors()
    ending.cancel()


def test_survivors_are_waited_for(lead: Lead, died: Callable[[int], None]) -> None:
    """Until they are killed; who was not asked is none."""
    leader = lead("(trap '' TERM; echo ready; exec sleep 1000) & wait")
    ending = Ending(leader.pid, lambda: None)
    with gevent.Timeout(10):
        ending.wait_for_survivors()
    ending.ask(0.2)
    died(leader.pid)
    waiting = gevent.spawn(ending.wait_for_survivors)
    gevent.idle()
    assert not waiting.ready()
    waiting.get(timeout=10)
    ending.cancel()


def test_a_cancelled_end_kills_nobody(lead: Lead) -> None:
    """The leader is reaped, and its number may be a stranger's: survivors are not waited for either."""
    leader, killed = lead(STUBBORN), Event()
    ending = Ending(leader.pid, killed.set)
    ending.ask(0.05)
    ending.cancel()
    with gevent.Timeout(10):
        ending.wait_for_survivors()
    assert not killed.wait(0.2) and leader.poll() is None
