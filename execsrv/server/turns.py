"""One greenlet after the other, in the order of asking."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import TracebackType

from gevent.event import Event


class Turns:
    """Gives the turn to one greenlet at a time, while ``is_free()`` holds; call ``pass_on`` when that may be so again.

    A context manager: entering it waits for the turn, which ends with the block; the block must not wait. A greenlet
    that is alone and finds it free gets its turn without a switch.
    """

    def __init__(self, is_free: Callable[[], bool]) -> None:
        self._is_free = is_free
        self._taken = False
        self._waiting: deque[Event] = deque()

    def __enter__(self) -> None:
        if self._taken or self._waiting or not self._is_free():
            self._wait()
        else:
            self._taken = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._taken = False
        self.pass_on()

    def pass_on(self) -> None:
        """Give the turn to the one that has waited longest, if nobody has it and it is free."""
        if self._waiting and not self._taken and self._is_free():
            self._taken = True
            self._waiting.popleft().set()

    def _wait(self) -> None:
        mine = Event()
        self._waiting.append(mine)
        self.pass_on()
        try:
            mine.wait()
        except BaseException:  # killed: the next one has its turn
            if mine.is_set():
                self._taken = False
            else:
                self._waiting.remove(mine)
            self.pass_on()
            raise
