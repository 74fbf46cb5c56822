"""Signals for whole sessions: every child leads one, and a job of an interactive shell has a group of its own in it."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterable

from execsrv.server.processes.proc_stat import ProcStat, all_processes, read_stat

#: How often the system is searched for processes that were made meanwhile.
MAX_ROUNDS = 8


def kill_sessions(leaders: Collection[int]) -> None:
    """Send SIGKILL to every process of the sessions that ``leaders`` lead, and to their descendants elsewhere.

    A descendant that left the session is found while its ancestors live; it is stopped first, so that it makes no
    others meanwhile. The leaders must not have been reaped: until then no stranger has their number as pid, group or
    session.
    """
    sessions = set(leaders)
    if not sessions:
        return
    processes = list(all_processes())
    escaped = _stop_descendants_elsewhere(sessions, processes)
    killed: set[int] = set()
    groups = _groups_of(sessions, processes) | sessions
    for _ in range(MAX_ROUNDS):
        signal_groups(groups, signal.SIGKILL)
        killed |= groups
        groups = _groups_of(sessions, all_processes()) - killed
        if not groups:
            break
    _signal_each(escaped, signal.SIGKILL)


def signal_session(leader: int, number: int) -> None:
    """Send a signal to every process group of the session that ``leader``, who was not reaped, leads."""
    signal_groups(_groups_of({leader}, all_processes()) | {leader}, number)


def signal_groups(groups: Collection[int], number: int) -> None:
    """Send a signal to every process of ``groups``; what is gone, or became another user's, is left alone."""
    for group in groups:
        try:
            os.killpg(group, number)
        except (ProcessLookupError, PermissionError):
            pass


def is_group_of(group: int, leader: int) -> bool:
    """Does a living process belong to ``group``, in the session of ``leader``?"""
    return group in _groups_of({leader}, all_processes())


def _groups_of(sessions: Collection[int], processes: Iterable[ProcStat]) -> set[int]:
    return {process.group for process in processes if process.is_alive and process.session in sessions}


def _stop_descendants_elsewhere(leaders: Collection[int], processes: Iterable[ProcStat]) -> Collection[ProcStat]:
    """Stop the descendants that have left the session, until no further ones are found."""
    stopped: dict[int, ProcStat] = {}
    for _ in range(MAX_ROUNDS):
        found = _descendants_elsewhere(leaders, processes)
        fresh = [process for pid, process in found.items() if pid not in stopped]
        if not fresh:
            break
        _signal_each(fresh, signal.SIGSTOP)
        stopped |= found
        processes = all_processes()
    return stopped.values()


def _descendants_elsewhere(leaders: Collection[int], processes: Iterable[ProcStat]) -> dict[int, ProcStat]:
    """The living descendants of ``leaders`` that have left their sessions."""
    children: dict[int, list[ProcStat]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process)
    found, unvisited = dict[int, ProcStat](), list(leaders)
    while unvisited:
        for child in children.get(unvisited.pop(), ()):
            unvisited.append(child.pid)
            if child.is_alive and child.session not in leaders:
                found[child.pid] = child
    return found


def _signal_each(processes: Iterable[ProcStat], number: int) -> None:
    """Send a signal to processes one by one, by a pidfd, so that none of them can be mistaken for a stranger."""
    for process in processes:
        try:
            pidfd = os.pidfd_open(process.pid)
        except OSError:
            continue
        try:
            now = read_stat(process.pid)
            if now and now.started == process.started:
                signal.pidfd_send_signal(pidfd, number)
        except (ProcessLookupError, PermissionError):
            pass
        finally:
            os.close(pidfd)
