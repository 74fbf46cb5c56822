"""What the kernel tells of processes (proc(5)), and waits for what sends no event."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from links import PATIENCE


def is_alive(pid: int) -> bool:
    """Is there such a process that has not ended?"""
    return _stat(pid)[:1] not in ([], ["Z"], ["X"])


def children(pid: int) -> list[int]:
    """The children of a process, zombies too."""
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return [child for child in pids if _stat(child)[1:2] == [str(pid)]]


def descriptors(pid: int) -> int:
    """How many descriptors a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident_bytes(pid: int) -> int:
    """The memory that a process has resident."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak_bytes(pid: int) -> int:
    """The most memory that a process has had resident."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def eventually(condition: Callable[[], bool]) -> bool:
    """Look again and again, for what nothing tells, until it holds; False after PATIENCE seconds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _stat(pid: int) -> list[str]:
    """State, parent and so on; empty when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
