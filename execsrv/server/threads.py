"""Native threads that work for greenlets.

gevent's pool does the same, but takes a dozen locks for each call; starting many processes at once is a seventh slower
with it.
"""

from __future__ import annotations

from _queue import SimpleQueue  # that of ``queue`` is gevent's own in a program that it has patched
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, ParamSpec, TypeVar

from gevent.hub import Waiter, get_hub
from gevent.monkey import get_original

P = ParamSpec("P")
R = TypeVar("R")

_start_thread: Callable[..., int] = get_original("_thread", "start_new_thread")


class Threads:
    """Up to ``most`` threads, which start on demand, for the greenlets of the hub on which this is made."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._open = 0
        self._jobs: SimpleQueue[tuple[Waiter[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._done: deque[tuple[Waiter[Any], Any, BaseException | None]] = deque()
        self._hub = get_hub()
        self._bell = self._hub.loop.async_()

    def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run ``function`` on a thread and wait for it as a greenlet; what it raises is raised here.

        A greenlet that is killed meanwhile leaves the thread at work. Raises RuntimeError when the system has no
        thread at all.
        """
        self._make_room()
        if not self._open:
            self._bell.start(self._deliver)
        self._open += 1
        waiter: Waiter[tuple[R, BaseException | None]] = Waiter(self._hub)
        self._jobs.put((waiter, partial(function, *args, **kwargs)))
        value, error = waiter.get()
        if error:
            raise error
        return value

    def close(self) -> None:
        """Let the threads end, each as soon as it has nothing to do."""
        for _ in range(self._count):
            self._jobs.put(None)

    def _make_room(self) -> None:
        """Start a thread if all are busy and there may be another."""
        if self._open < self._count or self._count == self._most:
            return
        try:
            _start_thread(self._work, ())
        except RuntimeError:
            if not self._count:
                raise
        else:
            self._count += 1

    def _work(self) -> None:
        while job := self._jobs.get():
            waiter, call = job
            try:
                self._done.append((waiter, call(), None))
            except BaseException as error:  # it is for who waits
                self._done.append((waiter, None, error))
            del job, waiter, call
            with suppress(ValueError):  # the hub is gone
                self._bell.send()

    def _deliver(self) -> None:
        while self._done:
            waiter, value, error = self._done.popleft()
            self._open -= 1
            waiter.switch((value, error))
        if not self._open:
            self._bell.stop()
