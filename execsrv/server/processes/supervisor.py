"""Owns every process of one connection, from the spawn to the reaping."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable

import gevent

from execsrv.config import ExecServerConfig
from execsrv.errors import InternalError, InvalidRequest
from execsrv.protocol.common import ExitReason
from execsrv.server.condition import Condition
from execsrv.server.processes.command import Command
from execsrv.server.processes.faults import limit_exceeded
from execsrv.server.processes.process import Bounds, Process, Sink
from execsrv.server.processes.sessions import kill_sessions
from execsrv.server.processes.spawn import spawn
from execsrv.server.workers import Workers

#: How long descendants that escaped the kill may keep streams open before they are given up.
GIVE_UP_S = 0.5

#: All of this program: the system tells of the end of a child to the program, not to a connection.
_supervisors: weakref.WeakSet[Supervisor] = weakref.WeakSet()


class Supervisor:
    """Starts processes and makes sure that none outlives the connection."""

    def __init__(self, config: ExecServerConfig, workers: Workers) -> None:
        self._config = config
        self._workers = workers
        self._processes: set[Process] = set()
        self._gone = Condition()
        self._end_reason: ExitReason | None = None
        _supervisors.add(self)

    def new_process(
        self,
        process_id: str,
        command: Command,
        sink: Sink,
        window_bytes: int | None = None,
        timeout_ms: int | None = None,
        drain_timeout_ms: int | None = None,
    ) -> Process:
        """A process that ``start`` will start.

        Raises InvalidRequest when the connection has too many, and InternalError when it is ending.
        """
        if self._end_reason:
            raise InternalError("the connection is ending", kind="spawnFailed")
        limit = self._config.max_processes_per_connection
        if len(self._processes) >= limit:
            raise limit_exceeded(limit, "processes of a connection (max-processes-per-connection)")
        bounds = Bounds(
            self._config.retained_output_bytes, window_bytes, _seconds(timeout_ms), _seconds(drain_timeout_ms)
        )
        process = Process(process_id, command, sink, bounds)
        self._processes.add(process)
        return process

    def start(self, process: Process, on_closed: Callable[[], None] = lambda: None) -> None:
        """Start a new process and watch it; waits for the system. Raises InternalError when that refuses.

        ``on_closed`` is called when nothing of it follows. A greenlet that waits here must not be killed: the child
        needs its owner.
        """
        try:
            process.attach(self._workers.spawn.call(spawn, process.command))
        except BaseException:
            self.abandon(process)
            raise
        if self._end_reason:
            self._kill([process], self._end_reason)
        gevent.get_hub().loop.run_callback(self._watch, process, on_closed)  # in the hub, behind the answer

    def abandon(self, process: Process) -> None:
        """Forget a new process: it can't be, or won't be, started."""
        process.fail()
        self._forget(process)

    def children(self) -> set[int]:
        """The pids of the started ones, until they are reaped."""
        return {process.pid for process in self._processes if process.started}

    def wait_for_starts(self) -> None:
        """Wait until none of those is starting that are starting now."""
        for process in list(self._processes):
            with contextlib.suppress(InvalidRequest):  # it can't be started
                process.wait_until_started()

    def end(self, reason: ExitReason, timeout: float) -> None:
        """Kill and reap all processes, also those still starting; wait for that at most ``timeout`` seconds.

        When the server stops they may end by themselves first, if the configuration gives them the time. Their last
        events are put to their sinks. Twice is harmless.
        """
        if reason == "shutdown" and self._config.shutdown_grace_ms:
            self._ask_to_end(self._config.shutdown_grace_ms / 1000)
        self._end_reason = self._end_reason or reason
        self._kill(self._running(), reason)
        if not self._wait_until_empty(GIVE_UP_S):
            for process in self._processes:
                process.give_up()
            self._wait_until_empty(timeout - GIVE_UP_S)

    def _ask_to_end(self, grace: float) -> None:
        for process in self._running():
            process.end("shutdown", grace)
        self._wait_until_empty(grace)

    def _running(self) -> list[Process]:
        return [process for process in self._processes if process.is_ours]

    def _wait_until_empty(self, timeout: float) -> bool:
        return self._gone.wait_for(lambda: not self._processes, timeout)

    def _kill(self, processes: list[Process], reason: ExitReason) -> None:
        endings = [process.expect_end(reason) for process in processes]
        for ending in endings:
            ending.expect_kill()
        escaped = {identity for ending in endings for identity in ending.escaped}
        kill_sessions([process.pid for process in processes], escaped)

    def _watch(self, process: Process, on_closed: Callable[[], None]) -> None:
        process.begin(on_exit=lambda: gevent.spawn(self._finish, process, on_closed))

    def _finish(self, process: Process, on_closed: Callable[[], None]) -> None:
        process.finish()
        on_closed()
        self._forget(process)

    def _forget(self, process: Process) -> None:
        self._processes.discard(process)
        self._gone.notify_all()


def children() -> set[int]:
    """The pids of all that this program has started and not reaped, except those that are just starting."""
    return set().union(*(supervisor.children() for supervisor in _supervisors))


def wait_for_starts() -> None:
    """Wait until none of those is starting, in the whole program, that are starting now."""
    gevent.joinall([gevent.spawn(supervisor.wait_for_starts) for supervisor in _supervisors])


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000
