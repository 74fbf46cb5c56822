"""Jobs that run one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import gevent


class SerialLane:
    """Runs jobs in the order of their coming, in a greenlet that lives while there are any.

    Its owner bounds how many may wait.
    """

    def __init__(self) -> None:
        self._jobs: deque[Callable[[], None]] = deque()

    def put(self, job: Callable[[], None]) -> None:
        """Run ``job`` when those before it are done; it must not raise."""
        self._jobs.append(job)
        if len(self._jobs) == 1:
            gevent.spawn(self._work)

    def _work(self) -> None:
        while self._jobs:
            self._jobs[0]()
            self._jobs.popleft()
