"""Native threads for the system calls that may block: a hub must never wait for a disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from gevent.threadpool import ThreadPool

P = ParamSpec("P")
R = TypeVar("R")

#: Threads that start processes: a program on a dead mount holds one of them, not all starts.
SPAWN_THREADS = 8

#: Threads for file requests: each connection uses one at a time.
FILE_THREADS = 16


class Workers:
    """The thread pools of one hub; threads start on demand."""

    def __init__(self) -> None:
        self.spawn = ThreadPool(SPAWN_THREADS)
        self.files = ThreadPool(FILE_THREADS)

    def close(self) -> None:
        """Let the threads end, each as soon as it has nothing to do."""
        for pool in (self.spawn, self.files):
            pool.kill()


def call_on(pool: ThreadPool, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run ``function`` on a thread of ``pool`` and wait for it as a greenlet; its exception is raised here."""
    outcome, value = pool.apply(_outcome_of, (function, args, kwargs))
    if outcome == "raised":
        raise value
    return value  # type: ignore[no-any-return]


def _outcome_of(function: Callable[..., Any], args: Any, kwargs: Any) -> tuple[str, Any]:
    """Returned rather than raised: gevent would print the traceback of what a thread raises."""
    try:
        return "returned", function(*args, **kwargs)
    except Exception as error:
        return "raised", error
