"""Where the calls of one peer run: with the greenlet that reads, in one of their own, or on a thread."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, TypeVar

import gevent

from execsrv.server.threads import Threads

O = TypeVar("O")  # noqa: E741
Run = Callable[[], Any]


class Lane(enum.Enum):
    """Where a call runs."""

    PROMPT = enum.auto()  #: at once: it never waits
    OWN = enum.auto()  #: in a greenlet of its own: it may wait
    FILES = enum.auto()  #: on a thread, one after the other


@dataclass(frozen=True, slots=True)
class Call:
    """A call that only has to be run, in its lane.

    at_once: of a call for a thread, gives the result if that takes no waiting, else None.
    """

    run: Run
    lane: Lane
    at_once: Run | None = None


class Lanes:
    """Runs calls in their lanes. Its owner bounds how many may wait.

    threads: for file calls. admit: called before each of those, may wait; when it says no, the call is dropped.
    """

    def __init__(self, threads: Threads, admit: Callable[[], bool]) -> None:
        self._threads = threads
        self._admit = admit
        self._files: deque[Callable[[], None]] = deque()

    def put(self, call: Call, outcome_of: Callable[[Run], O], finish: Callable[[O], None]) -> None:
        """Run ``call`` where it belongs: ``finish(outcome_of(call.run))``, neither of which may raise. Never waits."""
        if call.lane is Lane.FILES:
            self._put_file(call, outcome_of, finish)
        elif call.lane is Lane.OWN:
            gevent.spawn(lambda: finish(outcome_of(call.run)))
        else:
            finish(outcome_of(call.run))

    def _put_file(self, call: Call, outcome_of: Callable[[Run], O], finish: Callable[[O], None]) -> None:
        result = call.at_once() if call.at_once and not self._files else None
        if result is not None:
            finish(outcome_of(lambda: result))
            return
        self._files.append(lambda: finish(self._on_thread(outcome_of, call.run)))
        if len(self._files) == 1:
            gevent.spawn(self._work)

    def _on_thread(self, outcome_of: Callable[[Run], O], run: Run) -> O:
        try:
            return self._threads.call(outcome_of, run)
        except RuntimeError as error:  # the system has no thread for it, which is an answer too
            return outcome_of(partial(_raise, error))

    def _work(self) -> None:
        while self._files:
            if self._admit():
                self._files[0]()
            self._files.popleft()


def _raise(error: Exception) -> NoReturn:
    raise error
