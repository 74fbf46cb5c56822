"""The ``command/exec`` methods: the protocol's first dialect, with ids of its own."""

from __future__ import annotations

from contextlib import AbstractContextManager

from execsrv.errors import InternalError
from execsrv.protocol.events import CommandExited, CommandOutputDelta, Event, ProcessExited, ProcessOutput
from execsrv.protocol.first_cut import CommandExecParams, CommandExecResult, CommandWriteResult
from execsrv.protocol.processes import ProcessHadEnded, ProcessParams, ProcessTerminateResult, ProcessWriteParams, Size
from execsrv.server.processes.command import make_command
from execsrv.server.processes.faults import decode_chunk, duplicate_process, unknown_process
from execsrv.server.processes.process import Process, Sink
from execsrv.server.processes.supervisor import Supervisor

#: How long the exit of an id's former process is waited for; only the kernel can hold up a killed one.
FORMER_SECONDS = 10.0


class FirstCut:
    """Typed methods. An id is taken until its exit was sent, or it was terminated."""

    def __init__(self, supervisor: Supervisor, sink: Sink) -> None:
        self._supervisor = supervisor
        self._sink = sink
        self._running: dict[str, Process] = {}
        self._terminated: dict[str, Process] = {}

    def exec(self, params: CommandExecParams) -> CommandExecResult:
        """``command/exec``: a terminated process's exit is sent before its id starts anew."""
        process_id = params.process_id
        if process_id in self._running:
            raise duplicate_process(process_id)
        size = Size() if params.tty else None
        command = make_command(params.argv, params.cwd, params.env, size, params.arg0)
        process = self._supervisor.new_process(process_id, command, _FirstCutSink(self, self._sink))
        self._running[process_id] = process
        try:
            self._wait_for_former(process_id)
            self._supervisor.start(process)
        except BaseException:
            del self._running[process_id]
            self._supervisor.abandon(process)
            raise
        return CommandExecResult(process_id, process.pid)

    def write(self, params: ProcessWriteParams) -> CommandWriteResult:
        """``command/exec/write``."""
        process = self._running.get(params.process_id)
        if process is None:
            raise unknown_process(params.process_id)
        process.stdin.check_open()
        process.stdin.write(decode_chunk(params.chunk))
        return CommandWriteResult()

    def terminate(self, params: ProcessParams) -> ProcessTerminateResult:
        """``command/exec/terminate``: frees the id at once."""
        process = self._running.get(params.process_id)
        if process is None:
            return ProcessTerminateResult(running=False)
        running = process.terminate()
        if self._running.get(params.process_id) is process:
            self._terminated[params.process_id] = self._running.pop(params.process_id)
        return ProcessTerminateResult(running) if running else ProcessHadEnded(running)

    def free(self, process_id: str) -> None:
        """The exit of the id's oldest process was sent."""
        if not self._terminated.pop(process_id, None):
            self._running.pop(process_id, None)

    def _wait_for_former(self, process_id: str) -> None:
        former = self._terminated.get(process_id)
        if former and not former.changed.wait_for(lambda: former.exited, FORMER_SECONDS):
            raise InternalError(f"the former process {process_id} does not end", kind="spawnFailed")


class _FirstCutSink:
    """Turns the events of one process into the dialect's: output until the exit, then the exit, then nothing."""

    def __init__(self, owner: FirstCut, sink: Sink) -> None:
        self._owner = owner
        self._sink = sink
        self._exited = False

    def turn(self) -> AbstractContextManager[None]:
        return self._sink.turn()

    def put(self, event: Event) -> None:
        if isinstance(event, ProcessOutput) and not self._exited:
            self._sink.put(
                CommandOutputDelta(
                    event.process_id, "stderr" if event.stream == "stderr" else "stdout", event.chunk
                )
            )
        elif isinstance(event, ProcessExited):
            self._exited = True
            self._sink.put(CommandExited(event.process_id, event.exit_code))
            self._owner.free(event.process_id)
