"""The ``process/*`` methods: one connection's processes by the client's ids."""

from __future__ import annotations

from collections.abc import Callable

from execsrv.config import ExecServerConfig
from execsrv.protocol.common import Empty
from execsrv.protocol.processes import (
    ProcessAckParams,
    ProcessDescription,
    ProcessHadEnded,
    ProcessListResult,
    ProcessParams,
    ProcessReadParams,
    ProcessReadResult,
    ProcessResizeParams,
    ProcessSignalParams,
    ProcessSnapshotResult,
    ProcessStartParams,
    ProcessStartResult,
    ProcessTerminateParams,
    ProcessTerminateResult,
    ProcessWaitParams,
    ProcessWaitResult,
    ProcessWriteParams,
    ProcessWriteResult,
)
from execsrv.server.paths import shown
from execsrv.server.processes.command import make_command, refuse_sandbox, signal_number
from execsrv.server.processes.faults import decode_chunk, duplicate_process, limit_exceeded
from execsrv.server.processes.process import Process, Sink
from execsrv.server.processes.retention import ClosedProcesses
from execsrv.server.processes.supervisor import Supervisor

#: Requests of one connection that wait for something to happen.
MAX_WAITING_REQUESTS = 1024


class ProcessTable:
    """Typed methods; each may wait, and then holds up nobody but its caller."""

    def __init__(self, config: ExecServerConfig, supervisor: Supervisor, sink: Sink) -> None:
        self._supervisor = supervisor
        self._sink = sink
        self._open: dict[str, Process] = {}
        self._closed = ClosedProcesses(config.exited_retention_ms)
        self._waiting = 0

    def start(self, params: ProcessStartParams) -> ProcessStartResult:
        """``process/start``: raises InvalidRequest, InvalidParams or, when the system refuses, InternalError."""
        process_id = params.process_id
        if process_id in self._open or process_id in self._closed:
            raise duplicate_process(process_id)
        refuse_sandbox(params.sandbox)
        command = make_command(
            params.argv,
            params.cwd,
            params.env,
            size=params.size if params.tty else None,
            arg0=params.arg0,
            pipe_stdin=params.pipe_stdin,
            env_policy=params.env_policy,
        )
        process = self._supervisor.new_process(
            process_id, command, self._sink, params.window_bytes, params.timeout_ms, params.drain_timeout_ms
        )
        self._open[process_id] = process
        try:
            self._supervisor.start(process, on_closed=lambda: self._retire(process))
        except BaseException:
            del self._open[process_id]
            raise
        self._closed.drop_end(process_id)
        return ProcessStartResult(process_id)

    def read(self, params: ProcessReadParams) -> ProcessReadResult:
        """``process/read``: retained output, after waiting for news when the caller wants that."""
        process = self._find(params.process_id)
        process.wait_until_started()
        self._wait(process, lambda: process.has_news(params.after_seq), params.wait_ms)
        reading = process.log.read(params.after_seq, params.max_bytes)
        return ProcessReadResult(
            chunks=reading.chunks,
            next_seq=reading.chunks[-1].seq + 1 if reading.chunks else process.next_seq,
            exited=process.exited,
            exit_code=process.exit_code,
            closed=process.closed,
            truncated=reading.truncated,
            first_seq=process.log.first_seq(process.next_seq),
            dropped_bytes=process.log.dropped_bytes,
            failure=None,
        )

    def write(self, params: ProcessWriteParams) -> ProcessWriteResult:
        """``process/write``: answered when the child's pipe or terminal has taken the bytes."""
        process = self._find(params.process_id)
        if not process.command.has_stdin:
            process.wait_until_started()  # if it can't be started, there is no such process
        process.stdin.check_open()
        process.stdin.write(decode_chunk(params.chunk))
        return ProcessWriteResult()

    def terminate(self, params: ProcessTerminateParams) -> ProcessTerminateResult:
        """``process/terminate``: nobody is signalled for an id that is unknown or closed."""
        process = self._open.get(params.process_id)
        grace = None if params.grace_ms is None else params.grace_ms / 1000
        running = process.terminate(grace) if process else False
        if running or not (process or params.process_id in self._closed):
            return ProcessTerminateResult(running)
        return ProcessHadEnded(running)

    def signal(self, params: ProcessSignalParams) -> Empty:
        """``process/signal``."""
        self._find(params.process_id).signal(signal_number(params.signal))
        return Empty()

    def close_stdin(self, params: ProcessParams) -> Empty:
        """``process/closeStdin``."""
        self._find(params.process_id).close_stdin()
        return Empty()

    def resize(self, params: ProcessResizeParams) -> Empty:
        """``process/resize``."""
        self._find(params.process_id).resize(params.size)
        return Empty()

    def wait(self, params: ProcessWaitParams) -> ProcessWaitResult:
        """``process/wait``: answered at the exit, or when the time is up."""
        process = self._find(params.process_id)
        process.wait_until_started()
        self._wait(process, lambda: process.exited, params.wait_ms)
        return ProcessWaitResult(
            process.exited, process.exit_code, process.signal_name, process.reason, process.closed
        )

    def snapshot(self, params: ProcessParams) -> ProcessSnapshotResult:
        """``process/snapshot``."""
        process = self._find(params.process_id)
        process.wait_until_started()
        log = process.log
        return ProcessSnapshotResult(
            stdout=log.joined("stdout"),
            stderr=log.joined("stderr"),
            terminal=log.joined("pty"),
            truncated=log.dropped_seq > 0,
            dropped_bytes=log.dropped_bytes,
            exit_code=process.exit_code,
            running=not process.exited,
        )

    def list(self, params: Empty) -> ProcessListResult:
        """``process/list``: those that are open or can still be read, oldest first."""
        started = [process for process in (*self._closed, *self._open.values()) if process.started]
        return ProcessListResult([_description(process) for process in sorted(started, key=_age)])

    def ack(self, params: ProcessAckParams) -> None:
        """``process/ack``: ignored when the process is gone."""
        process = self._open.get(params.process_id)
        if process:
            process.window.acknowledge(params.seq)

    def close(self) -> None:
        """Forget what is retained."""
        self._closed.clear()

    def _find(self, process_id: str) -> Process:
        return self._open.get(process_id) or self._closed.find(process_id)

    def _retire(self, process: Process) -> None:
        del self._open[process.process_id]
        self._closed.add(process)

    def _wait(self, process: Process, happened: Callable[[], bool], wait_ms: int | None) -> None:
        """Wait until something has happened to ``process``, at most ``wait_ms`` milliseconds."""
        if wait_ms == 0 or happened():
            return
        if self._waiting >= MAX_WAITING_REQUESTS:
            raise limit_exceeded(MAX_WAITING_REQUESTS, "requests of a connection wait")
        self._waiting += 1
        try:
            process.changed.wait_for(happened, None if wait_ms is None else wait_ms / 1000)
        finally:
            self._waiting -= 1


def _description(process: Process) -> ProcessDescription:
    command = process.command
    return ProcessDescription(
        process_id=process.process_id,
        pid=process.pid,
        argv=[shown(word) for word in command.argv],
        cwd=shown(command.cwd),
        tty=command.size is not None,
        started_at_ms=process.started_at_ms,
        running=not process.exited,
        exit_code=process.exit_code,
        closed=process.closed,
    )


def _age(process: Process) -> int:
    return process.started_at_ms
