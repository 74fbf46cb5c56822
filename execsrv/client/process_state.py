"""What the client knows of one process: told by the thread that reads events, waited for by the user's threads."""

from __future__ import annotations

import contextlib
import time

from execsrv.client.deadline import Deadline
from execsrv.client.errors import ClosedError
from execsrv.client.lifetime import Changed
from execsrv.client.mailbox import Mailbox
from execsrv.client.notifications import ProcessEvent
from execsrv.client.pacing import Pacer
from execsrv.client.spool import Spool
from execsrv.protocol.events import ProcessClosed, ProcessExited, ProcessOutput, ProcessStarted

#: How long output is waited for behind the exit when the server does not tell its end, in seconds.
UNTOLD_SECONDS = 2.0


class ProcessState:
    """A process that is starting, runs or has ended.

    capture: keep output for ``next_output``.
    pacer: tells the server what was taken; None when the server has no windows.
    tells_close: the server says when no more output can come; else one that has ended is given UNTOLD_SECONDS.
    """

    thread: int | None = None  # as a taker of its own output: whoever asks for it

    def __init__(self, capture: bool, pacer: Pacer | None, tells_close: bool = True) -> None:
        self._capture = capture
        self._pacer = pacer
        self._tells_close = tells_close
        self._output: Spool[ProcessOutput] = Spool()
        self._changed = Changed()
        self._exited_at = 0.0
        self.pid: int | None = None
        self.exited: ProcessExited | None = None
        self.closed: ProcessClosed | None = None
        self.failure: ClosedError | None = None

    # ---- told by the reading thread ------------------------------------------------------------------------------

    def apply(self, event: ProcessEvent, mailboxes: list[Mailbox]) -> None:
        """Take note of ``event``, which ``mailboxes`` will get too."""
        with self._changed:
            match event:
                case ProcessStarted():
                    self.pid = event.pid
                case ProcessOutput():
                    self._add_output(event, mailboxes)
                case ProcessExited():
                    self.exited = event
                    self._exited_at = time.monotonic()
                case ProcessClosed():
                    self.closed = event
            self._changed.notify_all()

    def fail(self, failure: ClosedError) -> None:
        """The connection is over."""
        with self._changed:
            self.failure = failure
            self._changed.notify_all()

    # ---- for the user's threads ----------------------------------------------------------------------------------

    def wait_pid(self, deadline: Deadline) -> int | None:
        """The process's number on the server's machine; None when it is not told in time, or never will be."""
        with self._changed:
            self._changed.wait_for(lambda: self.pid or self.exited or self.failure, deadline.remaining())
            return self.pid

    def poll(self) -> ProcessExited | None:
        """How it ended, None if it runs. Raises ClosedError when that can't be known any more."""
        with self._changed:
            if self.failure and not self.exited:
                raise self.failure.again() from self.failure
            return self.exited

    def wait_exit(self, deadline: Deadline) -> ProcessExited:
        """Wait until it ends; meanwhile output goes to the spool, so that nothing holds the process back.

        Raises TimeoutError, and ClosedError when the end can't be known any more.
        """
        with self._changed, self.waiting(self):
            if not self._changed.wait_for(lambda: self.exited or self.failure, deadline.remaining()):
                raise TimeoutError("the process has not ended in time")
        ending = self.poll()
        assert ending
        return ending

    def next_output(self, deadline: Deadline, drain_timeout: float | None = None) -> ProcessOutput | None:
        """Wait for more output; None when there is none left.

        With ``drain_timeout`` that is so, too, when the process has ended and ``deadline``, or so many seconds,
        have passed: its own output is complete then, and only what descendants write may follow. Raises
        TimeoutError, OutputLost (once) where output was given up, and ClosedError when the connection ends before
        the process does.
        """
        if drain_timeout is None and not self._tells_close:
            drain_timeout = UNTOLD_SECONDS
        with self._changed:
            self._wait_for_output(deadline, drain_timeout)
            self.poll()
            if not self._output:
                self._check_end(drain_timeout)
                return None
            output = self._output.take()
            if self._pacer:
                self._pacer.taken(self, output)
            return output

    def waiting(self, *takers: ProcessState) -> contextlib.AbstractContextManager[None]:
        """See Pacer.waiting."""
        return self._pacer.waiting(*takers) if self._pacer else contextlib.nullcontext()

    # ---- for those who take output -------------------------------------------------------------------------------

    def taken(self, mailbox: Mailbox, output: ProcessOutput) -> None:
        """``output`` was taken from ``mailbox``."""
        if self._pacer:
            self._pacer.taken(mailbox, output)

    def release(self, mailbox: Mailbox) -> None:
        """Hold nothing back for ``mailbox``."""
        if self._pacer:
            self._pacer.release(mailbox)

    def abandon(self) -> None:
        """There is no handle any more: keep no output for it."""
        with self._changed:
            self._capture = False
            self._output.close()
            if self._pacer:
                self._pacer.release(self)

    def _add_output(self, output: ProcessOutput, mailboxes: list[Mailbox]) -> None:
        if self._capture:
            self._output.put(output, len(output.chunk))
        if self._pacer:
            own = [self] if self._capture else []
            self._pacer.arrived(output, mailboxes or own)

    def _wait_for_output(self, deadline: Deadline, drain_timeout: float | None) -> None:
        """Wait for output, the end of output, or the end of patience. The lock is held."""
        if self._output or self.closed:
            return
        with self.waiting():
            while not (self._output or self.closed or self.failure):
                patience = self._patience(deadline, drain_timeout)
                if patience == 0.0:
                    return
                self._changed.wait(patience)

    def _patience(self, deadline: Deadline, drain_timeout: float | None) -> float | None:
        remaining = deadline.remaining()
        if not self.exited or drain_timeout is None:
            return remaining
        drain = max(0.0, self._exited_at + drain_timeout - time.monotonic())
        return drain if remaining is None else min(drain, remaining)

    def _check_end(self, drain_timeout: float | None) -> None:
        """Return if there is no output left, raise if it is only not there. The lock is held."""
        if self.closed or (self.exited and drain_timeout is not None):
            return
        if self.failure:
            raise self.failure.again() from self.failure
        raise TimeoutError("no output in time")
