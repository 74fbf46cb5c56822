"""Ends what nobody can end any more: what belongs to clients, say, that were dropped, or that are open at exit."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import socket
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from execsrv.client.errors import ClosedError


class Closable(Protocol):
    """What has to be ended: a connection, or the keeper of some processes."""

    def close(self) -> None:
        """End it, wait for that, but not for ever. Twice is harmless."""


_open: set[Closable] = set()


class _Closer:
    """A thread that calls what finalizers leave for it.

    The garbage collector runs inside any other code, whatever lock that holds, and on any thread, also on one without
    the hub that a patched program lives on. So a finalizer only appends to a deque and writes a byte.
    """

    def __init__(self) -> None:
        self._calls: deque[Callable[[], Any]] = deque()
        self._wakeups, self._wakeup = socket.socketpair()
        self._wakeup.setblocking(False)
        threading.Thread(target=self._run, name="execsrv-closer", daemon=True).start()

    def call(self, function: Callable[..., Any], *args: Any) -> None:
        """Call ``function`` soon, on a thread of its own."""
        self._calls.append(functools.partial(function, *args))
        with contextlib.suppress(BlockingIOError):  # full, so a byte is there
            self._wakeup.send(b"!")

    def _run(self) -> None:
        while self._wakeups.recv(4096):
            while self._calls:
                call = self._calls.popleft()
                with contextlib.suppress(RuntimeError):  # no thread to be had at exit, which closes what is open
                    threading.Thread(target=call, daemon=True).start()


_closer = functools.cache(_Closer)


def when_dropped(owner: object, function: Callable[..., Any], *args: Any) -> None:
    """Call ``function`` on a thread of its own when ``owner`` is garbage, but not at exit."""
    weakref.finalize(owner, _closer().call, function, *args).atexit = False


def close_with(owner: object, owned: Closable) -> None:
    """Close ``owned`` when ``owner`` is garbage or the interpreter exits, whichever comes first."""
    _open.add(owned)
    when_dropped(owner, close, owned)


def close(owned: Closable) -> None:
    """Close ``owned``. Twice is harmless. A forked child only forgets it: it is its parent's."""
    if owned in _open:
        owned.close()
        _open.discard(owned)


def refuse_fork(pid: int) -> None:
    """Raise ClosedError in a fork of the process ``pid``: the threads of a connection stay with the original."""
    if os.getpid() != pid:
        raise ClosedError("it belongs to the process that this one is a fork of")


class Changed(threading.Condition):
    """A condition that cannot be waited for in a fork, where no thread is left that would notify it."""

    def __init__(self) -> None:
        super().__init__()
        self._pid = os.getpid()

    def wait(self, timeout: float | None = None) -> bool:
        """As ``threading.Condition.wait``. Raises ClosedError in a fork."""
        refuse_fork(self._pid)
        return super().wait(timeout)


def _close_all() -> None:
    for owned in list(_open):
        close(owned)


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open.clear)
    os.register_at_fork(after_in_child=_closer.cache_clear)
