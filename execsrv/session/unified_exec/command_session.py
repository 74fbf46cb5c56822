"""One command: what it has written, whether it goes on, and what subscribers are told of it."""

from __future__ import annotations

import threading
import time

from execsrv.client.deadline import Deadline
from execsrv.client.events import EventBus
from execsrv.session.unified_exec.errors import ConnectionLost, StdinClosed
from execsrv.session.unified_exec.events import (
    ExecCommandBegin,
    ExecCommandEnd,
    ExecCommandOutputDelta,
    TerminalInteraction,
)
from execsrv.session.unified_exec.head_tail_buffer import HeadTailBuffer, RetainedOutput
from execsrv.session.unified_exec.request import UNKNOWN_EXIT_CODE, ExecProcess, ExecRequest
from execsrv.session.unified_exec.response import unfinished

#: How long it may take to let a backend know that it is to kill a command, in seconds.
TERMINATE_SECONDS = 2.0


class CommandSession:
    """A started command. One thread calls ``follow`` and then ``linger``; the rest is for any thread.

    Events are published while the lock is held, so that they have one order; that does not wait.
    """

    def __init__(self, session_id: int, request: ExecRequest, process: ExecProcess, bus: EventBus) -> None:
        self.session_id = session_id
        self._request = request
        self._process = process
        self._bus = bus
        self._started_at = time.monotonic()
        self._changed = threading.Condition()
        self._transcript = HeadTailBuffer()
        self._uncollected = HeadTailBuffer()
        self._unfinished = b""  # the beginning of a character, which is collected with the rest of it
        self._failure: ConnectionLost | None = None
        self._exit_code: int | None = None
        bus.publish(ExecCommandBegin(request.process_id, tuple(request.argv), request.cwd, request.tty))

    # ---- for the thread that follows it ----------------------------------------------------------------------------

    def follow(self) -> None:
        """Take note of all that the process does, until its end."""
        try:
            for chunk in self._process.output():
                self._note_output(chunk)
        except ConnectionLost as error:
            self._failure = error
        self._note_end()

    def linger(self) -> None:
        """See ExecProcess.linger."""
        self._process.linger()

    # ---- for those who use it --------------------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        """Has it ended, as far as anybody can know?"""
        return self._exit_code is not None

    def wait(self, deadline: Deadline) -> None:
        """Wait until it has ended and all that it wrote is here, or until ``deadline``."""
        with self._changed:
            self._changed.wait_for(lambda: self.ended, deadline.remaining())

    def collect(self) -> tuple[RetainedOutput, int | None]:
        """Take what it has written since the last time. With it comes the exit code; None while it runs.

        Raises ConnectionLost when that can't be known any more.
        """
        with self._changed:
            if self._failure:
                raise ConnectionLost(self._failure.reason) from self._failure
            return self._uncollected.take(), self._exit_code

    def write(self, data: bytes, deadline: Deadline) -> None:
        """Pass ``data`` on to its terminal; see ExecProcess.write. Raises StdinClosed when it has none."""
        if not self._request.tty:
            raise StdinClosed
        with self._changed:
            if self.ended:
                return
            self._bus.publish(TerminalInteraction(self._request.process_id, data))
        self._process.write(data, deadline.remaining() or 0.0)

    def terminate(self, timeout: float = TERMINATE_SECONDS) -> None:
        """See ExecProcess.terminate."""
        self._process.terminate(timeout)

    def _note_output(self, chunk: bytes) -> None:
        with self._changed:
            self._transcript.append(chunk)
            self._bus.publish(ExecCommandOutputDelta(self._request.process_id, chunk))
            text = self._unfinished + chunk
            end = len(text) - unfinished(text)
            self._uncollected.append(text[:end])
            self._unfinished = text[end:]

    def _note_end(self) -> None:
        code = self._process.exit_code
        with self._changed:
            self._uncollected.append(self._unfinished)
            self._exit_code = UNKNOWN_EXIT_CODE if code is None else code
            duration = time.monotonic() - self._started_at
            transcript = self._transcript.take()
            self._bus.publish(ExecCommandEnd(self._request.process_id, self._exit_code, transcript, duration))
            self._changed.notify_all()
