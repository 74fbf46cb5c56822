"""Reaps strangers: orphans that the system hands to us as process 1, or as a child subreaper.

The statuses of our own children belong to their supervisors. gevent's ways to watch children reap whatever ends, so
none of them may be used in this program; and without them gevent's libev takes no notice of SIGCHLD.
"""

from __future__ import annotations

import ctypes
import os
import signal

import gevent

from execsrv.server.processes.descriptor import Descriptor
from execsrv.server.processes.proc_stat import all_processes, read_stat
from execsrv.server.processes.supervisor import children, wait_for_starts

#: Seconds between two searches: of many that end, not each is worth one.
PAUSE_S = 0.1

#: Larger than a pipe: a search serves all that have ended before it.
MOST_SIGNALS = 1024 * 1024

# <sys/prctl.h>
_PR_GET_CHILD_SUBREAPER = 37


def adopts_orphans() -> bool:
    """Is this program process 1, or a child subreaper (prctl(2)), so that orphans become its children?"""
    is_subreaper = ctypes.c_int(0)
    ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(is_subreaper))
    return os.getpid() == 1 or bool(is_subreaper.value)


def start_reaping() -> None:
    """Reap strangers from now on, as a greenlet."""
    gevent.spawn(_reap_for_ever, _child_signals())


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


def _child_signals() -> Descriptor:
    """A pipe that gets a byte for each SIGCHLD, whichever thread takes it (signal.set_wakeup_fd)."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.siginterrupt(signal.SIGCHLD, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return Descriptor(reading)


def _reap_for_ever(signals: Descriptor) -> None:
    while True:
        reap_strangers()
        signals.wait_readable()
        gevent.sleep(PAUSE_S)
        signals.read(MOST_SIGNALS)
