"""All processes of a session in the sense of setsid(2), where a job of an interactive shell has a group of its own."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

#: How often one looks for groups that were made meanwhile.
MAX_ROUNDS = 8

_DEAD_STATES = frozenset([b"Z", b"X", b"x"])


def kill_kernel_session(leader: int) -> None:
    """Send SIGKILL to all processes of the session that ``leader`` leads.

    The leader must not have been reaped: until then nobody else has its number.
    """
    killed: set[int] = set()
    groups = {leader}  # first, or a leader that waits for the others might end by itself
    for _ in range(MAX_ROUNDS):
        for group in groups:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        killed |= groups
        groups = living_groups(leader) - killed
        if not groups:
            break


def living_groups(leader: int) -> set[int]:
    """The groups of those processes in the session of ``leader`` that live (proc_pid_stat(5))."""
    groups = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it is gone meanwhile
            # The program's name in parentheses may hold anything; the last parenthesis ends it.
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            state, group, session = fields[0], int(fields[2]), int(fields[3])
            if session == leader and state not in _DEAD_STATES:
                groups.add(group)
    return groups
