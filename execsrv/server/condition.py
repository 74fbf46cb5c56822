"""A condition that greenlets wait for, first come first served."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from gevent.event import Event


class Condition:
    """Lets greenlets of one hub sleep until another greenlet of that hub says that something has changed.

    Like ``threading.Condition`` without its lock: greenlets only switch where they wait, so a caller's check and
    its ``wait`` cannot be torn apart.
    """

    def __init__(self) -> None:
        self._waiters: list[Event] = []  # there are many conditions with few waiters, and an empty deque is large

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep until notified, at most ``timeout`` seconds; False when the time was up."""
        notified = Event()
        self._waiters.append(notified)
        try:
            return bool(notified.wait(timeout))
        except BaseException:
            if notified.is_set():  # killed before it could use its turn: the next one has it
                self.notify()
            raise
        finally:
            if not notified.is_set():
                self._waiters.remove(notified)

    def wait_for(self, predicate: Callable[[], object], timeout: float | None) -> bool:
        """Sleep until ``predicate()`` holds, at most ``timeout`` seconds; False when it does not."""
        deadline = time.monotonic() + (math.inf if timeout is None else timeout)
        while not predicate() and (left := deadline - time.monotonic()) > 0:
            self.wait(left if left < math.inf else None)
        return bool(predicate())

    def notify(self) -> None:
        """Wake the greenlet that has waited longest."""
        if self._waiters:
            self._waiters.pop(0).set()

    def notify_all(self) -> None:
        """Wake everybody who waits now, in the order of their coming."""
        while self._waiters:
            self._waiters.pop(0).set()
