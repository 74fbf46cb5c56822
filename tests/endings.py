"""Sees processes end."""

from __future__ import annotations

import os
import select

WAIT = 20.0


def gone(pid: int) -> bool:
    """Wait until a process has ended, for which its pidfd is readable (pidfd_open(2)); False if it does not end."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    with open(fd):
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(WAIT * 1000))
