"""The limit of open files: the server raises its own, its children get the one that it was started with."""

from __future__ import annotations

import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: What the server was started with.
ORIGINAL = resource.getrlimit(resource.RLIMIT_NOFILE)

#: Descriptors that others may open during a start.
SPARE_DESCRIPTORS = 64

_lock = threading.Lock()
_starts = 0
_raised = False


def raise_own_limit() -> None:
    """Allow this program as many descriptors as the system lets it have."""
    global _raised
    _raised = ORIGINAL[0] != ORIGINAL[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (ORIGINAL[1], ORIGINAL[1]))


@contextmanager
def inherited_limit(newest_fd: int) -> Iterator[None]:
    """Within the block a child inherits the original limit.

    posix_spawn(3) can't set limits, so ours is lowered meanwhile. That would be noticed if we had more descriptors
    than the original limit allows, of which ``newest_fd`` is a sign: then the child has ours (see ``give_back``).
    """
    if not _raised or newest_fd + SPARE_DESCRIPTORS > ORIGINAL[0]:
        yield
        return
    _count_starts(+1)
    try:
        yield
    finally:
        _count_starts(-1)


def give_back(pid: int) -> None:
    """Give a child that inherited our limit the original one, a moment after it has begun to run."""
    if not _raised:
        return
    try:
        if resource.prlimit(pid, resource.RLIMIT_NOFILE) != ORIGINAL:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, ORIGINAL)
    except OSError:
        pass  # it is over already, or runs as another user


def _count_starts(change: int) -> None:
    """Lower our limit for the first of the starts that go on at the same time, and raise it after the last."""
    global _starts
    with _lock:
        _starts += change
        soft = ORIGINAL[0] if _starts else ORIGINAL[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, ORIGINAL[1]))
