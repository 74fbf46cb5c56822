"""One moment that bounds several waits."""

from __future__ import annotations

import threading
import time


class Deadline:
    """``timeout`` seconds from now, or never when it is None."""

    def __init__(self, timeout: float | None) -> None:
        self._end = None if timeout is None else time.monotonic() + timeout

    def remaining(self) -> float | None:
        """Seconds until then, not below 0 and short enough for every wait of the threading module."""
        if self._end is None:
            return None
        return min(max(0.0, self._end - time.monotonic()), threading.TIMEOUT_MAX)

    def passed(self) -> bool:
        """Is it over?"""
        return self.remaining() == 0.0
