"""Ends what nobody can end any more: connections of clients that were dropped, or that are open at exit."""

from __future__ import annotations

import _thread
import atexit
import os
import weakref
from collections.abc import Callable
from typing import Any

from execsrv.client.channel import Channel

_open: set[Channel] = set()


def when_dropped(owner: object, function: Callable[..., Any], *args: Any) -> None:
    """Call ``function`` on a thread of its own when ``owner`` is garbage, but not at exit.

    The garbage collector runs inside any other code, whatever lock that holds, so nothing is done on the spot. For
    the same reason the thread is a bare one: ``Thread.start`` would wait.
    """
    weakref.finalize(owner, _thread.start_new_thread, function, args).atexit = False


def close_with(owner: object, channel: Channel) -> None:
    """Close ``channel`` when ``owner`` is garbage or the interpreter exits, whichever comes first."""
    _open.add(channel)
    when_dropped(owner, close, channel)


def close(channel: Channel) -> None:
    """Close ``channel``. Twice is harmless. A forked child only forgets it: the connection is its parent's."""
    if channel in _open:
        channel.close()
        _open.discard(channel)


def _close_all() -> None:
    for channel in list(_open):
        close(channel)


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open.clear)
