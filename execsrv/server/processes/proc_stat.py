"""The system's table of processes, as /proc shows it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

#: A pid, and when it was started: what tells a process from a later one of the same number.
Identity: TypeAlias = tuple[int, int]

_ZOMBIE = b"Z"
_DEAD_STATES = (_ZOMBIE, b"X", b"x")


class ProcStat(NamedTuple):
    """One process (proc_pid_stat(5)): its numbers, and when it was started, in ticks since boot."""

    pid: int
    state: bytes
    parent: int
    group: int
    session: int
    started: int

    @property
    def is_alive(self) -> bool:
        """Has it not ended?"""
        return self.state not in _DEAD_STATES

    @property
    def is_zombie(self) -> bool:
        """Has it ended, and does it wait to be reaped?"""
        return self.state == _ZOMBIE

    @property
    def identity(self) -> Identity:
        """What no other process has."""
        return self.pid, self.started


def all_processes() -> Iterator[ProcStat]:
    """Every process that we may see: none where there is no /proc."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in filter(str.isdigit, names):
        stat = read_stat(int(name))
        if stat:
            yield stat


def read_stat(pid: int) -> ProcStat | None:
    """The process of that number; None when there is none, or none that we may see."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The program's name in parentheses may hold anything; the last parenthesis ends it.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return ProcStat(pid, fields[0], int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))
