"""Ends whole sessions: every child leads one, and a job of an interactive shell has a group of its own in it."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterator

#: How often the sessions are searched for groups that were made meanwhile.
MAX_ROUNDS = 8

_DEAD_STATES = b"ZXx"


def kill_sessions(leaders: Collection[int]) -> None:
    """Send SIGKILL to every process group of the sessions that ``leaders`` lead.

    The leaders must not have been reaped: until then no stranger has their number as pid, group or session.
    """
    sessions = killed = set(leaders)
    signal_groups(sessions, signal.SIGKILL)
    for _ in range(MAX_ROUNDS):
        found = {group for group, session in _living_groups() if session in sessions} - killed
        if not found:
            return
        signal_groups(found, signal.SIGKILL)
        killed = killed | found


def signal_groups(groups: Collection[int], number: int) -> None:
    """Send a signal to every process of ``groups``; what is gone, or became another user's, is left alone."""
    for group in groups:
        try:
            os.killpg(group, number)
        except (ProcessLookupError, PermissionError):
            pass


def _living_groups() -> Iterator[tuple[int, int]]:
    """Group and session of every process that has not ended (proc_pid_stat(5))."""
    for stat in _stats():
        # The program's name in parentheses may hold anything; the last parenthesis ends it.
        state, _, group, session = stat.rpartition(b")")[2].split()[:4]
        if state not in _DEAD_STATES:
            yield int(group), int(session)


def _stats() -> Iterator[bytes]:
    """The stat files of all processes that we may see: none where there is no /proc."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in filter(str.isdigit, names):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                yield file.read()
        except OSError:  # it has ended, or is none of our business
            continue
