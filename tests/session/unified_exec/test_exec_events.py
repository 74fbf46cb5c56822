"""Tests of execsrv.session.unified_exec.events."""

from __future__ import annotations

import pickle

import pytest
from exec_fakes import Collector

from execsrv.client.events import EventBus
from execsrv.client.notifications import Announcement, kind_of, size_of
from execsrv.session.unified_exec.events import (
    ExecCommandBegin,
    ExecCommandEnd,
    ExecCommandOutputDelta,
    TerminalInteraction,
)
from execsrv.session.unified_exec.head_tail_buffer import RetainedOutput

EVENTS = [
    ExecCommandBegin("1234", ("prog",), "/project", True),
    ExecCommandOutputDelta("1234", b"chunk"),
    TerminalInteraction("1234", b"in"),
    ExecCommandEnd("1234", 3, RetainedOutput(b"he", 100, b"il"), 1.5),
]


@pytest.mark.parametrize(
    "event, kind, size", list(zip(EVENTS, ["begin", "output_delta", "terminal_interaction", "end"], [0, 5, 2, 4]))
)
def test_kinds_and_sizes(event: Announcement, kind: str, size: int) -> None:
    """As the bus sees them; and they survive a way over the disk, where a slow taker's events wait."""
    assert (kind_of(event), size_of(event)) == (kind, size)
    assert pickle.loads(pickle.dumps(event)) == event


def test_subscription_by_process_and_kind() -> None:
    """Like any event of the client."""
    bus, ends, process, other = EventBus({}), Collector(), Collector(), Collector()
    bus.subscribe(ends, kind="end")
    bus.subscribe(process, process_id="1234")
    bus.subscribe(other, process_id="4321")
    for event in EVENTS:
        bus.publish(event)
    assert process.wait_for("ExecCommandEnd") == EVENTS
    bus.end(None)
    bus.join(10)
    assert ends.events == EVENTS[3:]
    assert other.events == []
