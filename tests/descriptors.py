"""The descriptors of the program that runs the tests."""

from __future__ import annotations

import os

#: The target of one that was closed meanwhile, as that of the directory always is.
CLOSED = "(closed)"


def open_descriptors() -> set[tuple[str, str]]:
    """Number and target of each.

    A hub's own are left out: they are no business of any test, and other threads may have hubs and lose them at any
    time. What was opened since is the difference of two such sets, for the same reason never that of two counts.
    """
    found = {(number, _target(number)) for number in os.listdir("/proc/self/fd")}
    return {(number, target) for number, target in found if not target.startswith(("anon_inode:[event", CLOSED))}


def _target(number: str) -> str:
    """What a descriptor leads to, if a path can tell."""
    try:
        return os.readlink(f"/proc/self/fd/{number}")
    except OSError:
        return "(too long a path)" if os.path.lexists(f"/proc/self/fd/{number}") else CLOSED
