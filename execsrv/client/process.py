"""The handle of a process on the server's machine, after the manner of ``subprocess.Popen``."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from execsrv.client.deadline import Deadline
from execsrv.client.errors import ClosedError, TimeoutExpired
from execsrv.client.lifetime import when_dropped
from execsrv.client.process_state import ProcessState
from execsrv.protocol import ExitReason, ProcessOutput
from execsrv.wire import encode_base64

if TYPE_CHECKING:
    from execsrv.client.client import ExecServerClient

#: How long ``pid`` waits for the server to tell it, in seconds. It comes right behind the start's answer.
PID_SECONDS = 2.0

#: How long output of descendants is waited for once the process itself has ended, in seconds.
DRAIN_SECONDS = 2.0

#: How long leaving a ``with`` block waits for the end of a process that was killed, in seconds.
KILL_SECONDS = 10.0


class Process:
    """A process that ``client.start`` started. As long as there is a handle, its client stays open.

    Leaving a ``with`` block kills the process if it still runs, and waits for its end.

    process_id: the client's name for the process. args: what was started.
    """

    def __init__(self, client: ExecServerClient, process_id: str, args: Sequence[str], state: ProcessState) -> None:
        self._client = client
        self._state = state
        self._collected: dict[bool, list[bytes]] = {False: [], True: []}
        self.process_id = process_id
        self.args = args
        when_dropped(self, state.abandon)

    def __repr__(self) -> str:
        return f"<Process {self.process_id} {self.args!r} returncode={self.returncode}>"

    @property
    def pid(self) -> int | None:
        """Its number on the server's machine; None when the server does not tell it."""
        return self._state.wait_pid(Deadline(PID_SECONDS))

    @property
    def returncode(self) -> int | None:
        """Its exit code: 128 + N when signal N ended it, -1 when it can't be known; None until it has come."""
        return self._state.exited.exit_code if self._state.exited else None

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended it, if one did."""
        return self._state.exited.signal if self._state.exited else None

    @property
    def reason(self) -> ExitReason | None:
        """Why it ended: ``exited`` and ``signaled`` by itself; otherwise what made the server end it."""
        return self._state.exited.reason if self._state.exited else None

    def poll(self) -> int | None:
        """The exit code, or None if it still runs. Raises ClosedError when nobody can know any more."""
        ending = self._state.poll()
        return ending.exit_code if ending else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait up to ``timeout`` seconds for its end and return the exit code; all its own output has come by then.

        Unread output goes to a temporary file meanwhile. Raises TimeoutExpired and ClosedError.
        """
        try:
            return self._state.wait_exit(Deadline(timeout)).exit_code
        except TimeoutError:
            raise TimeoutExpired(self.args, timeout or 0) from None

    def __iter__(self) -> Iterator[ProcessOutput]:
        """Yield output (with ``stream`` and ``chunk``) as it comes, until nothing can come any more.

        Raises ClosedError when the connection ends before that, OutputLost where output was given up.
        """
        return self.output()

    def output(self, drain_timeout: float | None = None) -> Iterator[ProcessOutput]:
        """As iteration, but wait for descendants that hold the streams up to ``drain_timeout`` seconds only."""
        while (output := self._state.next_output(Deadline(None), drain_timeout)) is not None:
            yield output

    def communicate(
        self, timeout: float | None = None, *, text: bool = False, drain_timeout: float = DRAIN_SECONDS
    ) -> tuple[Any, Any]:
        """Wait up to ``timeout`` seconds for its end; return what it wrote to stdout (or terminal) and to stderr.

        Descendants that hold the streams are waited for up to ``drain_timeout`` seconds more. ``text``: decode as
        UTF-8, wrong bytes replaced, line ends as "\\n". Raises ClosedError, OutputLost, and TimeoutExpired with the
        output so far, which is not lost for a second try.
        """
        deadline = Deadline(timeout)
        try:
            while (output := self._state.next_output(deadline, drain_timeout)) is not None:
                self._collected[output.stream == "stderr"].append(output.chunk)
        except TimeoutError:
            raise TimeoutExpired(self.args, timeout or 0, *self._result(text)) from None
        return self._result(text)

    def write(self, data: bytes) -> None:
        """Write all of ``data`` to its stdin or terminal; wait until the server has passed it on.

        Raises ServerError (kind ``stdinClosed`` when it has none) and ClosedError.
        """
        self._call("process/write", chunk=encode_base64(data))

    def close_stdin(self) -> None:
        """End its input behind what was written; more can't be. Harmless twice, without stdin and after its exit.

        On a terminal its end-of-file character is sent, which a program that takes every key by itself does not
        take for the end. Raises ServerError and ClosedError.
        """
        if self.poll() is None:
            self._call("process/closeStdin")

    def resize(self, rows: int, cols: int) -> None:
        """Give its terminal another size.

        Raises ServerError (kinds ``noTerminal`` and ``processExited`` among others) and ClosedError.
        """
        self._call("process/resize", size={"rows": rows, "cols": cols})

    def kill(self) -> bool:
        """Kill it and its group. True if it was running: then its end is still to come. Raises ClosedError."""
        return bool(self._call("process/terminate")["running"])

    terminate = kill

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        try:
            if self.poll() is None:
                self.kill()
                self.wait(KILL_SECONDS)
        except ClosedError:
            pass  # the server ends what belongs to a connection with it

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        with self._state.waiting():
            return self._client.call(method, {"processId": self.process_id, **params})

    def _result(self, text: bool) -> tuple[Any, Any]:
        stdout, stderr = (b"".join(self._collected[is_stderr]) for is_stderr in (False, True))
        return (_decode(stdout), _decode(stderr)) if text else (stdout, stderr)


def _decode(data: bytes) -> str:
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)
    return decoder.decode(data, final=True)
