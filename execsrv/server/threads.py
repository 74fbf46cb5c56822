"""Native threads that make blocking calls for the greenlets of a hub.

``gevent.threadpool`` does the same, and serves ``transports/descriptors.py``, which calls seldom. It makes a result and
a watcher of the loop for each call; with one watcher for all of them, and a queue that is written in C, 32 starts at a
time go a seventh faster (``tests/benchmarks``, two cores).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from gevent.hub import Waiter, get_hub
from gevent.monkey import get_original

P = ParamSpec("P")
R = TypeVar("R")

# In a program that gevent has patched, the names lead to its own.
_start_thread: Callable[..., int] = get_original("_thread", "start_new_thread")
_new_queue: Callable[[], SimpleQueue[Any]] = get_original("queue", "SimpleQueue")


class Threads:
    """Up to ``most`` threads, which start on demand, for the greenlets of the hub on which this is made.

    Its users bound how many calls wait.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._started = 0  # threads
        self._unfinished = 0  # calls
        self._jobs: SimpleQueue[tuple[Waiter[Any], Callable[[], Any]] | None] = _new_queue()
        self._done: deque[tuple[Waiter[Any], Any, BaseException | None]] = deque()
        self._hub = get_hub()
        self._bell = self._hub.loop.async_()  # wakes the hub from a thread

    def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run ``function`` on a thread and wait for it as a greenlet; what it raises is raised here.

        A greenlet that is killed meanwhile leaves the thread at work. Raises RuntimeError when no thread runs and the
        system gives none.
        """
        self._make_room()
        if not self._unfinished:
            self._bell.start(self._deliver)
        self._unfinished += 1
        waiter: Waiter[tuple[R, BaseException | None]] = Waiter(self._hub)
        self._jobs.put((waiter, partial(function, *args, **kwargs)))
        value, error = waiter.get()
        if error:
            raise error
        return value

    def close(self) -> None:
        """Let the threads end, each as soon as it has nothing to do. No call may follow."""
        for _ in range(self._started):
            self._jobs.put(None)

    def _make_room(self) -> None:
        """Start a thread if all are busy and there may be another."""
        if self._unfinished < self._started or self._started == self._most:
            return
        try:
            _start_thread(self._work, ())
        except RuntimeError:
            if not self._started:
                raise
        else:
            self._started += 1

    def _work(self) -> None:
        while job := self._jobs.get():
            waiter, call = job
            try:
                self._done.append((waiter, call(), None))
            except BaseException as error:  # it is for who waits
                self._done.append((waiter, None, error))
            del job, waiter, call  # an idle thread keeps nothing alive
            with suppress(ValueError):  # the hub is gone
                self._bell.send()

    def _deliver(self) -> None:
        while self._done:
            waiter, value, error = self._done.popleft()
            self._unfinished -= 1
            waiter.switch((value, error))
        if not self._unfinished:
            self._bell.stop()
