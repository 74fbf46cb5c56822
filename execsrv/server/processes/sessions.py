"""Signals for whole sessions: every child leads one, and a job of an interactive shell has a group of its own in it.

A descendant that has left its session is found while its ancestors live. Where they may end before it does, its
identity has to be kept.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress

from execsrv.server.processes.proc_stat import Identity, ProcStat, families, read_stat

#: How often the system is searched for processes that were made meanwhile.
MAX_ROUNDS = 8

_NOBODY = -1


def kill_sessions(leaders: Collection[int], escaped: Collection[Identity] = ()) -> None:
    """Send SIGKILL to every process of the sessions that ``leaders`` lead, and to their descendants elsewhere.

    All are stopped first, so that they make no others meanwhile; ``escaped`` are those elsewhere that are known. The
    leaders must not have been reaped: until then no stranger has their number as pid, group or session.
    """
    sessions = set(leaders)
    if not sessions:
        return
    processes = _signal_sessions(sessions, sessions, escaped, signal.SIGSTOP)
    stopped = _stop_escaped(sessions, processes, escaped)
    _signal_sessions(sessions, sessions | _groups_of(sessions, processes), escaped, signal.SIGKILL)
    _signal_each(stopped, signal.SIGKILL)


def signal_session(leader: int, escaped: Collection[Identity], *numbers: int) -> Collection[Identity]:
    """Send signals to every group of the session that ``leader``, who was not reaped, leads, and to the escaped.

    Returns who has escaped and lives, as far as that can be found; ``escaped`` are those that are known.
    """
    processes = list(_families({leader}, escaped))
    found = _find_escaped({leader}, processes, escaped)
    for number in numbers:
        signal_groups(_groups_of({leader}, processes) | {leader}, number)
        _signal_each(found, number)
    return {process.identity for process in found}


def open_survivor(leader: int, escaped: Collection[Identity]) -> int | None:
    """A pidfd of some process of the session, or of the escaped, that lives; None when none does.

    Raises OSError when there is no descriptor for it.
    """
    for process in _families({leader}, escaped):
        if process.is_alive and (process.session == leader or process.identity in escaped):
            pidfd = _open(process)
            if pidfd is not None:
                return pidfd
    return None


def signal_groups(groups: Collection[int], number: int) -> None:
    """Send a signal to every process of ``groups``; what is gone, or became another user's, is left alone."""
    for group in groups:
        _try(os.killpg, group, number)


def is_group_of(group: int, leader: int) -> bool:
    """Does a living process belong to ``group``, in the session of ``leader``?"""
    return group in _groups_of({leader}, families({leader}))


def _families(sessions: Collection[int], escaped: Collection[Identity]) -> Iterable[ProcStat]:
    return families(sessions, (pid for pid, _ in escaped))


def _groups_of(sessions: Collection[int], processes: Iterable[ProcStat]) -> set[int]:
    return {process.group for process in processes if process.is_alive and process.session in sessions}


def _signal_sessions(
    sessions: Collection[int], groups: Collection[int], escaped: Collection[Identity], number: int
) -> Collection[ProcStat]:
    """Send a signal to these ``groups`` of ``sessions`` and then to others, until no further ones are found.

    Returns the families of the sessions. A child that is being forked meanwhile gets its group's signal, too, so that
    a group which is stopped makes no others.
    """
    signalled = set[int]()
    for _ in range(MAX_ROUNDS):
        signal_groups(groups, number)
        signalled.update(groups)
        processes = list(_families(sessions, escaped))
        groups = _groups_of(sessions, processes) - signalled
        if not groups:
            break
    return processes


def _stop_escaped(
    sessions: Collection[int], processes: Iterable[ProcStat], known: Collection[Identity]
) -> Collection[ProcStat]:
    """Stop who has left the sessions, until no further ones are found."""
    stopped: dict[Identity, ProcStat] = {}
    for _ in range(MAX_ROUNDS):
        fresh = [process for process in _find_escaped(sessions, processes, known) if process.identity not in stopped]
        if not fresh:
            break
        _signal_each(fresh, signal.SIGSTOP)
        stopped |= {process.identity: process for process in fresh}
        processes = _families(sessions, known)
    return stopped.values()


def _find_escaped(
    leaders: Collection[int], processes: Iterable[ProcStat], known: Collection[Identity]
) -> list[ProcStat]:
    """The living descendants of ``leaders`` outside their sessions; the ``known`` ones count as such."""
    children: dict[int, list[ProcStat]] = {}
    for process in processes:
        parent = _NOBODY if process.identity in known else process.parent
        children.setdefault(parent, []).append(process)
    found, unvisited = list[ProcStat](), [_NOBODY, *leaders]
    while unvisited:
        # Taken out, since what was read while numbers were used again may form a ring.
        for child in children.pop(unvisited.pop(), ()):
            unvisited.append(child.pid)
            if child.is_alive and child.session not in leaders:
                found.append(child)
    return found


def _signal_each(processes: Iterable[ProcStat], number: int) -> None:
    """Send a signal to processes one by one, by a pidfd, so that none of them can be mistaken for a stranger."""
    for process in processes:
        with suppress(OSError):  # no descriptor is left
            pidfd = _open(process)
            if pidfd is not None:
                _try(signal.pidfd_send_signal, pidfd, number)
                os.close(pidfd)


def _open(process: ProcStat) -> int | None:
    """A pidfd; None when it is gone, also if another has its number by now. Raises OSError."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    now = read_stat(process.pid)
    if now and now.identity == process.identity:
        return pidfd
    os.close(pidfd)
    return None


def _try(send: Callable[[int, int], None], target: int, number: int) -> None:
    try:
        send(target, number)
    except (ProcessLookupError, PermissionError):
        pass
