"""Descriptors that greenlets read from and write to, and that can be taken away from them safely.

A nonblocking descriptor (a pipe, a socket) is used directly and waited for on the hub. A blocking one (a regular
file, a terminal) is used on a thread of the hub's pool, since O_NONBLOCK on it would be shared with strangers.
"""

from __future__ import annotations

import logging
import os
import select
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

import gevent
from gevent.event import Event
from gevent.hub import get_hub

from execsrv.transports import TransportClosed

log = logging.getLogger(__name__)

A = TypeVar("A")
R = TypeVar("R")
Buffer: TypeAlias = bytes | memoryview

#: Events of an io watcher (libev's EV_READ and EV_WRITE).
_READ, _WRITE = 1, 2

#: Most buffers that are written at once (writev(2), IOV_MAX).
_MOST_BUFFERS = 1024


class _Channel:
    """One direction of a descriptor, used by one greenlet at a time.

    waiting_since: monotonic seconds since when a greenlet waits for readiness; None while none does.
    waited_until: when the last such wait ended.
    """

    def __init__(self, fd: int, event: int) -> None:
        self._fd = fd
        self._hub = get_hub()
        self._watcher = self._hub.loop.io(fd, event)
        self._blocks = os.get_blocking(fd)
        self._job: Any = None
        self._stopped = Event()
        self._waited = True
        self.waiting_since: float | None = None
        self.waited_until = time.monotonic()

    def stop(self, then: Callable[[], object]) -> None:
        """Wake the greenlet that waits and let nobody use the descriptor again; call this once.

        ``then()`` is called, perhaps later, when no greenlet waits for it and no thread works on it any more: only
        now may it be closed (libev aborts when a watched descriptor vanishes).
        """
        self._stopped.set()
        if self._job is not None and not self._job.ready():
            self._job.rawlink(lambda job: then())
        else:
            self._hub.cancel_waits_close_and_then([self._watcher], _stopped(), then)

    def _do(self, call: Callable[[int, A], R], argument: A) -> R:
        """``call(fd, argument)`` as soon as it need not wait. Raises TransportClosed when stopped, and OSError."""
        if not self._waited:
            gevent.sleep(0)  # a peer that is always ready must not keep the hub to itself
        self._waited = False
        if self._blocks:
            self._wait()
            return self._do_on_thread(call, argument)
        while not self._stopped.is_set():
            try:
                return call(self._fd, argument)
            except BlockingIOError:
                self._wait()
        raise _stopped()

    def _wait(self) -> None:
        if self._stopped.is_set():
            raise _stopped()
        self._waited = True
        self.waiting_since = time.monotonic()
        try:
            self._hub.wait(self._watcher)
        finally:
            self.waiting_since = None
            self.waited_until = time.monotonic()

    def _do_on_thread(self, call: Callable[[int, A], R], argument: A) -> R:
        self._job = self._hub.threadpool.spawn(_catching, call, self._fd, argument)
        gevent.wait([self._job, self._stopped], count=1)
        if not self._job.ready():
            raise _stopped()
        outcome: R | OSError = self._job.get()
        if isinstance(outcome, OSError):
            raise outcome
        return outcome


class Source(_Channel):
    """A descriptor to read from."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd, _READ)

    def is_hung_up(self) -> bool:
        """Has the other side been closed (poll(2)), or was this one stopped?"""
        if self._stopped.is_set():
            return True
        poll = select.poll()
        poll.register(self._fd, select.POLLRDHUP)
        return bool(poll.poll(0))

    def read(self, size: int) -> bytes:
        """Wait for 1 to ``size`` bytes; ``b""`` at the end: end of file, an error of the descriptor, or stopped."""
        try:
            return self._do(os.read, size)
        except TransportClosed:
            return b""
        except OSError as error:
            log.debug("reading ended: %s", error)
            return b""


class Sink(_Channel):
    """A descriptor to write to."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd, _WRITE)
        self._torn = False
        self._rest: Sequence[Buffer] = []  # of what ``write_now`` was given

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Write all of these, after what ``write_now`` has left.

        Raises TransportClosed when nobody can take it, and ever after a write cut short.
        """
        if self._torn:
            raise TransportClosed("an earlier write was cut short")
        self._torn = True
        rest: Sequence[Buffer] = [*self._rest, *buffers]
        self._rest = []
        try:
            while rest:
                rest = _without(rest, self._do(os.writev, rest[:_MOST_BUFFERS]))
        except OSError as error:
            raise TransportClosed(f"writing failed: {error}") from error
        self._torn = False

    def write_now(self, buffers: Sequence[Buffer]) -> bool:
        """Write as much of these as there is room for; call it only while nobody writes.

        True: all is written. False: ``write`` must follow; it writes the rest first, and raises if nothing can be.
        """
        self._rest = [*self._rest, *buffers]
        if not (self._blocks or self._torn or self._stopped.is_set()):
            with suppress(OSError):
                self._rest = _without(self._rest, os.writev(self._fd, self._rest[:_MOST_BUFFERS]))
        return not self._rest


def _without(buffers: Sequence[Buffer], written: int) -> Sequence[Buffer]:
    """What is left of buffers of which so many bytes were written."""
    for index, buffer in enumerate(buffers):
        if written < len(buffer):
            return [memoryview(buffer)[written:], *buffers[index + 1 :]]
        written -= len(buffer)
    return []


def _stopped() -> TransportClosed:
    return TransportClosed("the transport was closed")


def _catching(call: Callable[[int, A], R], fd: int, argument: A) -> R | OSError:
    """The error as a value: the pool would print a raised one."""
    try:
        return call(fd, argument)
    except OSError as error:
        return error
