"""Tests of execsrv.client.notifications."""

from __future__ import annotations

from typing import Any

import pytest

from execsrv.client.errors import ProtocolError
from execsrv.client.notifications import kind_of, parse_notification
from execsrv.protocol.events import (
    CommandExited,
    CommandOutputDelta,
    ProcessClosed,
    ProcessExited,
    ProcessOutput,
    ProcessStarted,
)


@pytest.mark.parametrize(
    ("method", "params", "event"),
    [
        ("process/started", {"processId": "p", "pid": 7}, ProcessStarted("p", 7)),
        (
            "process/output",
            {"processId": "p", "seq": 1, "stream": "pty", "chunk": "AP8="},
            ProcessOutput("p", 1, "pty", b"\0\xff"),
        ),
        (
            "process/exited",
            {"processId": "p", "seq": 2, "exitCode": 137, "signal": "SIGKILL", "reason": "terminated", "new": 1},
            ProcessExited("p", 2, 137, "SIGKILL", "terminated"),
        ),
        ("process/exited", {"processId": "p", "exitCode": 1}, ProcessExited("p", 0, 1, None, "exited")),
        ("process/closed", {"processId": "p", "seq": 3, "outputComplete": False}, ProcessClosed("p", 3, False)),
        (
            "command/exec/outputDelta",
            {"processId": "c", "stream": "stderr", "chunk": "aGk="},
            CommandOutputDelta("c", "stderr", b"hi"),
        ),
        ("command/exec/exited", {"processId": "c", "exitCode": 1}, CommandExited("c", 1)),
    ],
)
def test_known_notifications_become_events(method: str, params: dict[str, Any], event: object) -> None:
    """Bytes are decoded, and fields that nobody knows are ignored."""
    assert parse_notification(method, params) == event


def test_unknown_notification_is_no_event() -> None:
    """A newer server may say more than we understand."""
    assert parse_notification("process/dreamed", {}) is None


@pytest.mark.parametrize(
    "params", [None, [], {"processId": "p"}, {"processId": "p", "seq": 1, "stream": "pty", "chunk": "%"}]
)
def test_bad_params_are_a_fault_of_the_server(params: Any) -> None:
    """Output that cannot be read is not passed over."""
    with pytest.raises(ProtocolError, match="bad params of process/output"):
        parse_notification("process/output", params)


def test_kinds() -> None:
    """Events of processes have a kind."""
    assert kind_of(ProcessStarted("p", 1)) == "started"
    assert kind_of(CommandExited("c", 1)) is None
