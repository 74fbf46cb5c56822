"""Gives a process its input while somebody else takes its output, so that neither side waits for the other."""

from __future__ import annotations

import contextlib
import threading
from typing import Protocol

from execsrv.client.errors import ClosedError, ExecServerError, ServerError

#: Kinds of errors that only say that the process has ended, or takes no more input.
ENDED_KINDS = frozenset(["processExited", "stdinClosed", "unknownProcess", "processForgotten"])


class Fed(Protocol):
    """What is given input: a handle."""

    def write(self, data: memoryview) -> None:
        """See Process.write."""

    def close_stdin(self) -> None:
        """See Process.close_stdin."""

    def kill(self) -> bool:
        """See Process.kill."""


class Feeder(threading.Thread):
    """A thread that writes ``data`` to a process and then ends its input.

    A process that does not want all of it is no error, as with subprocess. After any other ``error`` the process is
    killed: it would wait for the rest for ever.
    """

    def __init__(self, process: Fed, data: memoryview) -> None:
        super().__init__(name="execsrv-feeder", daemon=True)
        self.error: ServerError | None = None
        self._process = process
        self._data = data
        self.start()

    def run(self) -> None:
        """Do it."""
        try:
            if self._data:
                self._process.write(self._data)
            self._process.close_stdin()
        except ClosedError:
            pass  # which everybody who waits for the process is told
        except ServerError as error:
            if error.kind not in ENDED_KINDS:
                self.error = error
                with contextlib.suppress(ExecServerError):
                    self._process.kill()
