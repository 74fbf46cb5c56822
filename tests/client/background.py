"""Runs a blocking call beside the test."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

WAIT = 20.0


class Background:
    """``function`` on a thread; ``result`` waits for it and returns, or raises, what it did."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def result(self) -> Any:
        """What the function returned; raises what it raised."""
        self._thread.join(WAIT)
        assert not self._thread.is_alive(), "the call did not return"
        if self._error:
            raise self._error
        return self._value

    def is_running(self) -> bool:
        """Has it not returned yet?"""
        return self._thread.is_alive()

    def _run(self) -> None:
        self._value, self._error = None, None
        try:
            self._value = self._function()
        except BaseException as error:
            self._error = error
