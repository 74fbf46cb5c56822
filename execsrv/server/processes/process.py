"""One process, from its start to its reaping: a source of ordered events."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

import gevent

from execsrv.errors import InvalidRequest
from execsrv.protocol.common import OUTPUT_CHUNK_BYTES, ExitReason, StreamName
from execsrv.protocol.events import Event, ProcessClosed, ProcessExited, ProcessOutput, ProcessStarted
from execsrv.protocol.processes import RetainedChunk, Size
from execsrv.server.condition import Condition
from execsrv.server.processes.command import Command
from execsrv.server.processes.descriptor import Descriptor, DescriptorClosed
from execsrv.server.processes.ending import Ending
from execsrv.server.processes.faults import no_terminal, process_exited, unknown_process
from execsrv.server.processes.output_log import OutputLog
from execsrv.server.processes.sessions import is_group_of, signal_groups
from execsrv.server.processes.spawn import Child
from execsrv.server.processes.stdin import Stdin
from execsrv.server.processes.window import Window

#: What a terminal may still hold when its process has ended: the kernel keeps less, and writers may go on.
TERMINAL_REST_BYTES = 64 * 1024

UNKNOWN_EXIT_CODE = -1

#: Seconds between SIGTERM and SIGKILL for a process whose time is up.
TIMEOUT_GRACE_S = 2.0


class Sink(Protocol):
    """The one consumer of a process's events."""

    def turn(self) -> AbstractContextManager[None]:
        """Wait for room for an output event; within the block it is there."""

    def put(self, event: Event) -> None:
        """Take an event; never waits."""


@dataclasses.dataclass(frozen=True, slots=True)
class Bounds:
    """What a process is held to; None: no bound.

    retained_bytes: newest output that is kept.
    window_bytes: output that may be sent beyond what the client has acknowledged.
    timeout: seconds until it is ended. drain_timeout: seconds that descendants may hold the streams after its exit.
    """

    retained_bytes: int
    window_bytes: int | None = None
    timeout: float | None = None
    drain_timeout: float | None = None


class Process:
    """A process that a client asked for.

    is_ours: its pid, and the group and session of that number, can't be anybody else's, so they may be signalled.

    Each event gets its seq, is kept and is handed to the sink in one step without a switch, so that no two streams
    can swap and no answer knows more, or less, than the events.
    """

    def __init__(self, process_id: str, command: Command, sink: Sink, bounds: Bounds) -> None:
        self.process_id = process_id
        self.command = command
        self.log = OutputLog(bounds.retained_bytes)
        self.window = Window(bounds.window_bytes and min(bounds.window_bytes, bounds.retained_bytes))
        self.stdin = Stdin(process_id, open=command.has_stdin)
        self.changed = Condition()
        self.next_seq = 1
        self.exit_code: int | None = None
        self.signal_name: str | None = None
        self.reason: ExitReason | None = None
        self.started_at_ms = 0
        self.exited_at_ms: int | None = None
        self.closed = False
        self.is_ours = False
        self._failed = False
        self._dead = False
        self._output_complete = True
        self._sink = sink
        self._child: Child | None = None
        self._pidfd: Descriptor | None = None
        self._outputs: dict[StreamName, Descriptor] = {}
        self._input: Descriptor | None = None
        self._ending: Ending | None = None
        self._end_reason: ExitReason | None = None
        self._bounds = bounds
        self._timers: list[gevent.Greenlet[..., None]] = []
        self._pumps: list[gevent.Greenlet[..., None]] = []

    # ---- state -----------------------------------------------------------------------------------------------------

    @property
    def started(self) -> bool:
        """Has the system started it?"""
        return self._child is not None

    def wait_until_started(self) -> None:
        """Wait while it is starting. Raises InvalidRequest (unknownProcess) when the start fails."""
        while not self.started:
            if self._failed:
                raise unknown_process(self.process_id)
            self.changed.wait()

    @property
    def pid(self) -> int:
        """The pid; only for a started process."""
        assert self._child
        return self._child.pid

    @property
    def cost(self) -> int:
        """Bytes that it counts for when it is closed: its output or, where they are larger, its argv or its id."""
        return max(self.log.cost, len(self.process_id), sum(map(len, self.command.argv)))

    @property
    def exited(self) -> bool:
        """Was its exit reported?"""
        return self.exit_code is not None

    def has_news(self, after_seq: int) -> bool:
        """Is there an event that ``after_seq`` has not seen, or will there be none?"""
        return self.closed or self.next_seq > after_seq + 1

    # ---- what others do to it --------------------------------------------------------------------------------------

    def attach(self, child: Child) -> None:
        """Own the started ``child``; ``begin`` must follow."""
        self._child = child
        self.is_ours = True
        self._ending = Ending(child.pid, self.window.lift)
        self.started_at_ms = _now_ms()
        self.command = dataclasses.replace(self.command, env={})  # it can be large, and has served its purpose
        self.changed.notify_all()
        self._pidfd = Descriptor(child.pidfd)
        self._outputs = {name: Descriptor(fd) for name, fd in child.outputs.items()}
        if child.terminal:
            self._outputs["pty"] = self._input = Descriptor(child.terminal.fd, child.terminal.close)
        elif child.stdin is not None:
            self._input = Descriptor(child.stdin)
        if self._input:
            self.stdin.attach(self._input, child.terminal and child.terminal.end_of_file)

    def fail(self) -> None:
        """The system refused to start it: who waits for it learns that there is no such process."""
        self._failed = True
        self.stdin.close(unknown_process(self.process_id))
        self.changed.notify_all()

    def end(self, reason: ExitReason, grace: float | None = None) -> None:
        """End the whole session: by SIGKILL, or by SIGTERM and ``grace`` seconds later by SIGKILL."""
        if not self.is_ours:
            return
        ending = self.expect_end(reason)
        if grace is None:
            ending.force()
        else:
            ending.ask(grace)

    def expect_end(self, reason: ExitReason) -> Ending:
        """Its session is ended next: report that as the ``reason``. Returns what ends it."""
        if not self._has_ended():
            self._end_reason = self._end_reason or reason
        assert self._ending
        return self._ending

    def terminate(self, grace: float | None = None) -> bool:
        """End the whole session, unless it is closed; was it running? Waits while it is starting.

        grace: seconds between SIGTERM and SIGKILL; None: SIGKILL at once.
        """
        try:
            self.wait_until_started()
        except InvalidRequest:  # it can't be started, so nothing runs
            return False
        self.end("terminated", grace)
        return not self.exited

    def signal(self, number: int) -> None:
        """Send a signal to the terminal's foreground group, or without a terminal to the process's group.

        Waits while it is starting. Raises InvalidRequest when it has exited.
        """
        terminal = self._wait_until_usable().terminal
        group = terminal.foreground_group() if terminal else self.pid
        # The foreground group's number is a stranger's when that group has ended since.
        is_own = group == self.pid or is_group_of(group, self.pid)
        signal_groups([group if is_own else self.pid], number)

    def resize(self, size: Size) -> None:
        """Give the terminal another size. Raises InvalidRequest when there is none, or the process has exited."""
        terminal = self._wait_until_usable().terminal
        if terminal is None:
            raise no_terminal(self.process_id)
        terminal.setwinsize(size.rows, size.cols)

    def close_stdin(self) -> None:
        """End the input behind what was written before; twice, or without one, is harmless.

        Waits while it is starting; what is written meanwhile is refused.
        """
        self.stdin.finish()
        self.wait_until_started()

    def give_up(self) -> None:
        """Read no more of what descendants write: once it has exited, ``closed`` follows at once."""
        self.window.lift()
        for output in self._outputs.values():
            with contextlib.suppress(DescriptorClosed):
                self._output_complete &= output.is_at_end()
            output.close()

    # ---- its life --------------------------------------------------------------------------------------------------

    def begin(self, on_exit: Callable[[], object]) -> None:
        """Report the start of the attached child and its output; never waits.

        ``on_exit()`` is called when ``finish`` is due.
        """
        assert self._pidfd
        self._sink.put(ProcessStarted(self.process_id, self.pid))
        self._pumps = [gevent.spawn(self._pump, name, output) for name, output in self._outputs.items()]
        self._start_timer(self._bounds.timeout, self.end, "timeout", TIMEOUT_GRACE_S)
        self._pidfd.when_readable(on_exit)

    def finish(self) -> None:
        """Report the rest, now that the child has ended; return when it is closed and reaped."""
        assert self._ending
        code, signal_name = self._exit_status()
        self._dead = True
        for name, output in self._outputs.items():
            self._forward_rest(name, output)
        self.window.wake()  # perhaps nothing is left to wait for
        self._report_exit(code, signal_name)
        self._start_timer(self._bounds.drain_timeout, self.give_up)
        for pump in self._pumps:
            pump.join()
        self._ending.wait_for_survivors()
        self._report_close()
        self._release()

    def _wait_until_usable(self) -> Child:
        self.wait_until_started()
        if self.exited or not self.is_ours:
            raise process_exited(self.process_id)
        assert self._child
        return self._child

    def _start_timer(self, seconds: float | None, function: Callable[..., None], *args: object) -> None:
        """Call ``function`` after so many seconds, unless the process is closed before."""
        if seconds is not None:
            self._timers.append(gevent.spawn_later(seconds, function, *args))

    def _pump(self, name: StreamName, output: Descriptor) -> None:
        """Forward a stream until its end, or until it is given up."""
        with contextlib.suppress(DescriptorClosed):
            ended = False
            while not ended:
                output.wait_readable()
                at_end = self.window.is_shut and output.is_at_end()  # the end of a stream passes a shut window
                if self.window.is_shut and not at_end:
                    self.window.wait()
                    continue
                with self._sink.turn():
                    ended = self._forward(name, output, 1 if at_end else self.window.room(OUTPUT_CHUNK_BYTES))

    def _has_ended(self) -> bool:
        """Has it ended by itself, whether or not that was noticed already?"""
        if not self._dead and self._pidfd and self.is_ours:
            options = os.WEXITED | os.WNOWAIT | os.WNOHANG
            with contextlib.suppress(ChildProcessError):  # somebody else in this program reaped it
                self._dead = os.waitid(os.P_PIDFD, self._pidfd.fd, options) is not None
        return self._dead

    def _forward_rest(self, name: StreamName, output: Descriptor) -> None:
        """Forward what the dead process may have left in a stream, and no more: descendants can go on for ever."""
        try:
            rest = TERMINAL_REST_BYTES if name == "pty" else output.pending()
            end = output.bytes_read + rest
            while output.bytes_read < end:
                with self._sink.turn():
                    before = output.bytes_read
                    self._forward(name, output, min(OUTPUT_CHUNK_BYTES, end - before))
                    if output.bytes_read == before:
                        return
        except DescriptorClosed:
            pass

    def _forward(self, name: StreamName, output: Descriptor, limit: int) -> bool:
        """Report up to ``limit`` bytes of what is there now; is the stream at its end?"""
        chunk = output.read(limit)
        if chunk:
            self._report_output(name, chunk)
        return chunk == b""

    def _exit_status(self) -> tuple[int, str | None]:
        """Exit code and signal name. The zombie stays, so that nobody else gets its number (waitid(2))."""
        assert self._pidfd and self._ending
        try:
            status = os.waitid(os.P_PIDFD, self._pidfd.fd, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:  # somebody else in this program reaped it: its number may be a stranger's
            self.is_ours = False
            self._ending.cancel()
            status = None
        if status is None:
            return UNKNOWN_EXIT_CODE, None
        if status.si_code == os.CLD_EXITED:
            return status.si_status, None
        return 128 + status.si_status, _signal_name(status.si_status)

    # ---- events ----------------------------------------------------------------------------------------------------

    def _report_output(self, name: StreamName, chunk: bytes) -> None:
        seq = self._take_seq()
        self.log.append(RetainedChunk(seq, name, chunk))
        self.window.sent(seq, len(chunk))
        self._report(ProcessOutput(self.process_id, seq, name, chunk))

    def _report_exit(self, code: int, signal_name: str | None) -> None:
        self.exit_code = code
        self.exited_at_ms = _now_ms()
        self._close_stdin()
        self.signal_name = signal_name
        self.reason = self._end_reason or ("signaled" if signal_name else "exited")
        self._report(ProcessExited(self.process_id, self._take_seq(), code, signal_name, self.reason))

    def _close_stdin(self) -> None:
        """Take no more input; descendants find the end of it. A terminal goes on, for its output."""
        self.stdin.close()
        if self._input and self.command.size is None:
            self._input.close()

    def _report_close(self) -> None:
        self.closed = True
        self._report(ProcessClosed(self.process_id, self._take_seq(), self._output_complete))

    def _report(self, event: Event) -> None:
        self._sink.put(event)
        self.changed.notify_all()

    def _take_seq(self) -> int:
        seq = self.next_seq
        self.next_seq += 1
        return seq

    def _release(self) -> None:
        """Reap the child and close what is ours."""
        assert self._pidfd and self._ending
        self.is_ours = False
        self._ending.cancel()
        gevent.killall(self._timers, block=False)
        try:
            os.waitid(os.P_PIDFD, self._pidfd.fd, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            pass
        for descriptor in (self._pidfd, self._input, *self._outputs.values()):
            if descriptor:
                descriptor.close()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"
