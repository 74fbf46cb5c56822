"""Closed processes: readable for a while, then remembered by their end only."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

import gevent

from execsrv.server.processes.faults import forgotten_process, unknown_process
from execsrv.server.processes.process import Process

#: Bounds of what one connection's closed processes keep together.
MAX_RETAINED_BYTES = 64 * 1024 * 1024
MAX_RETAINED_PROCESSES = 4096

#: How many forgotten processes' ends are remembered.
MAX_FORGOTTEN = 256


@dataclass(frozen=True, slots=True)
class _End:
    exit_code: int
    exited_at_ms: int


class ClosedProcesses:
    """The closed processes of a connection, oldest first, and the ends of those before them."""

    def __init__(self, retention_ms: int) -> None:
        self._retention_s = retention_ms / 1000
        self._retained: OrderedDict[str, tuple[Process, float]] = OrderedDict()
        self._bytes = 0
        self._forgotten: OrderedDict[str, _End] = OrderedDict()
        self._cleared = False
        self._expiring: gevent.Greenlet[[], None] | None = None

    def add(self, process: Process) -> None:
        """Keep a process that has just closed; forget the oldest ones that no longer fit beside it."""
        if self._cleared:
            return
        self._retained[process.process_id] = process, time.monotonic() + self._retention_s
        self._bytes += process.cost
        while self._bytes > MAX_RETAINED_BYTES or len(self._retained) > MAX_RETAINED_PROCESSES:
            self._forget_oldest()
        if self._retained and not self._expiring:
            self._expiring = gevent.spawn(self._expire)

    def find(self, process_id: str) -> Process:
        """The readable process. Raises InvalidRequest: processForgotten or unknownProcess."""
        if process_id in self._retained:
            return self._retained[process_id][0]
        end = self._forgotten.get(process_id)
        raise forgotten_process(process_id, end.exit_code, end.exited_at_ms) if end else unknown_process(process_id)

    def __iter__(self) -> Iterator[Process]:
        return iter([process for process, _ in self._retained.values()])

    def __contains__(self, process_id: str) -> bool:
        return process_id in self._retained

    def drop_end(self, process_id: str) -> None:
        """The id is used again: what became of the former process no longer matters."""
        self._forgotten.pop(process_id, None)

    def clear(self) -> None:
        """Forget everything, also what is added from now on."""
        self._cleared = True
        self._retained.clear()
        if self._expiring:
            self._expiring.kill(block=False)

    def _expire(self) -> None:
        while self._retained:
            _, deadline = next(iter(self._retained.values()))
            gevent.sleep(max(0, deadline - time.monotonic()))
            while self._retained and next(iter(self._retained.values()))[1] <= time.monotonic():
                self._forget_oldest()
        self._expiring = None

    def _forget_oldest(self) -> None:
        process_id, (process, _) = self._retained.popitem(last=False)
        self._bytes -= process.cost
        assert process.exit_code is not None and process.exited_at_ms is not None
        self._forgotten[process_id] = _End(process.exit_code, process.exited_at_ms)
        if len(self._forgotten) > MAX_FORGOTTEN:
            self._forgotten.popitem(last=False)
