"""What the tests of unified exec share: a process that does what the test says, and one who sees events."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

from execsrv.client.events import EventBus
from execsrv.client.notifications import Event
from execsrv.session.unified_exec.command_session import CommandSession
from execsrv.session.unified_exec.errors import ConnectionLost, ProcessIdInUse
from execsrv.session.unified_exec.request import ExecRequest

#: Longest wait for anything, in seconds.
WAIT = 20.0

#: What each command is told to be.
REQUEST = ExecRequest("1234", ["prog", "arg"], "/project", tty=True)


class FakeProcess:
    """An ExecProcess that writes and ends when the test says so. ``lingers``: it leaves descendants."""

    def __init__(self, lingers: bool = False) -> None:
        self.exit_code: int | None = None
        self.written: list[tuple[bytes, float]] = []
        self.terminated = threading.Event()
        self.freed = threading.Event()
        self._lingers = lingers
        self._doings: queue.SimpleQueue[bytes | int | ConnectionLost] = queue.SimpleQueue()

    def says(self, chunk: bytes) -> None:
        """Write ``chunk``."""
        self._doings.put(chunk)

    def ends(self, code: int = 0) -> None:
        """Exit."""
        self._doings.put(code)

    def is_lost(self) -> None:
        """The connection to it breaks."""
        self._doings.put(ConnectionLost("gone"))

    def output(self) -> Iterator[bytes]:
        """See ExecProcess."""
        while isinstance(doing := self._doings.get(timeout=WAIT), bytes):
            yield doing
        if isinstance(doing, ConnectionLost):
            raise doing
        self.exit_code = doing

    def linger(self) -> None:
        """See ExecProcess."""
        if self._lingers:
            assert self.terminated.wait(WAIT)
        self.freed.set()

    def write(self, data: bytes, timeout: float) -> None:
        """See ExecProcess."""
        self.written.append((data, timeout))

    def terminate(self, timeout: float) -> None:
        """See ExecProcess."""
        self.terminated.set()
        self.ends(137)


class FakeFactory:
    """Starts fake processes, of which ``opened`` are the requests and ``processes`` the handles.

    taken_ids: how many of the next ids others have.
    """

    shell = "/bin/bash"

    def __init__(self) -> None:
        self.events = EventBus({})
        self.opened: list[ExecRequest] = []
        self.processes: list[FakeProcess] = []
        self.prepared: list[FakeProcess] = []
        self.taken_ids = 0

    def open(self, request: ExecRequest) -> FakeProcess:
        """Start one: the next that was prepared, else one that runs."""
        if self.taken_ids:
            self.taken_ids -= 1
            raise ProcessIdInUse(request.process_id)
        process = self.prepared.pop(0) if self.prepared else FakeProcess()
        self.opened.append(request)
        self.processes.append(process)
        return process


class Collector:
    """A callback that collects events."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._changed = threading.Condition()

    def __call__(self, event: Event) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def wait_for(self, kind: str) -> list[Any]:
        """The events, once one of this kind is there."""
        with self._changed:
            assert self._changed.wait_for(lambda: any(kind in str(event) for event in self.events), WAIT)
            return list(self.events)


def session_of(process: FakeProcess, session_id: int = 1234, request: ExecRequest = REQUEST) -> CommandSession:
    """A session of ``process`` that nobody follows yet."""
    return CommandSession(session_id, request, process, EventBus({}))


def ended_session(session_id: int) -> CommandSession:
    """A session of a process that has ended."""
    process = FakeProcess()
    session = session_of(process, session_id)
    process.ends()
    session.follow()
    return session


def in_background(function: Callable[..., Any], *args: Any) -> Future[Any]:
    """Call ``function`` beside the test, on a thread that keeps nobody from leaving."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(function(*args))
        except BaseException as error:  # it is for whoever asks for the result
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def in_parallel(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """The results of ``calls``, made at the same time."""
    return [future.result(WAIT) for future in [in_background(call) for call in calls]]


def descriptors() -> set[str]:
    """The open descriptors of this program."""
    return set(os.listdir("/proc/self/fd"))
