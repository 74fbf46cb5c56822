"""Reaps strangers: orphans that the system hands to us as process 1, or as a child subreaper.

The statuses of our own children belong to their supervisors. gevent's ways to watch children reap whatever ends, so
none of them may be used in this program.
"""

from __future__ import annotations

import ctypes
import os
import signal

import gevent
from gevent.event import Event

from execsrv.server.processes.proc_stat import all_processes, read_stat
from execsrv.server.processes.supervisor import children, wait_for_starts

#: Seconds between two searches: of many that end, not each is worth one.
PAUSE_S = 0.1

# <sys/prctl.h>
_PR_GET_CHILD_SUBREAPER = 37


def adopts_orphans() -> bool:
    """Is this program process 1, or a child subreaper (prctl(2)), so that orphans become its children?"""
    is_subreaper = ctypes.c_int(0)
    ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(is_subreaper))
    return os.getpid() == 1 or bool(is_subreaper.value)


def start_reaping() -> None:
    """Reap strangers from now on, as a greenlet."""
    ended = Event()
    gevent.signal_handler(signal.SIGCHLD, ended.set)
    gevent.spawn(_reap_for_ever, ended)


def reap_strangers() -> None:
    """Reap every zombie that is a child of ours and was not started for a client.

    Which of them are the latter is known only after their starts: those that go on are waited for. A zombie's number
    is its own until it is reaped, so that no later start can have made it.
    """
    zombies = [stat for stat in all_processes() if stat.parent == os.getpid() and stat.is_zombie]
    if zombies:
        wait_for_starts()
    ours = children()
    for zombie in zombies:
        if zombie.pid not in ours and read_stat(zombie.pid) == zombie:
            os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOHANG)


def _reap_for_ever(ended: Event) -> None:
    while True:
        ended.clear()
        reap_strangers()
        gevent.sleep(PAUSE_S)
        ended.wait()
