"""Tests of execsrv.client.deadline."""

from __future__ import annotations

import threading

from execsrv.client.deadline import Deadline


def test_no_timeout_never_passes() -> None:
    """None stands for no end."""
    deadline = Deadline(None)
    assert deadline.remaining() is None
    assert not deadline.passed()


def test_remaining_time_shrinks_to_zero() -> None:
    """What is over is 0, never negative."""
    remaining = Deadline(100).remaining()
    assert remaining is not None
    assert 0 < remaining <= 100
    assert Deadline(-5).remaining() == 0
    assert Deadline(0).passed()


def test_remaining_time_fits_every_wait() -> None:
    """A timeout beyond what the system can wait is cut to that."""
    assert Deadline(1e30).remaining() == threading.TIMEOUT_MAX
