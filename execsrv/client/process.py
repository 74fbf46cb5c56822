"""The handle of a process on the server's machine, after the manner of ``subprocess.Popen``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from io import BytesIO
from signal import Signals
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from execsrv.client.deadline import Deadline
from execsrv.client.errors import ClosedError, ServerError, TimeoutExpired
from execsrv.client.feeder import ENDED_KINDS, Feeder
from execsrv.client.lifetime import when_dropped
from execsrv.client.process_state import ProcessState
from execsrv.client.text import TextOutput, decode, decode_outputs
from execsrv.config import MIB
from execsrv.protocol.common import ExitReason
from execsrv.protocol.events import ProcessOutput
from execsrv.protocol.processes import ProcessSnapshotResult
from execsrv.wire import encode_base64, from_wire

if TYPE_CHECKING:
    from execsrv.client.client import ExecServerClient

#: How long ``pid`` waits for the server to tell it, in seconds. It comes right behind the start's answer.
PID_SECONDS = 2.0

#: How long output of descendants is waited for once the process itself has ended, in seconds.
DRAIN_SECONDS = 2.0

#: How long a process may take to end by itself when it is asked to, in seconds.
GRACE_SECONDS = 2.0

#: How long the server may take to kill a process, and how long leaving a ``with`` block then waits for its end.
KILL_SECONDS = 10.0

#: Input that is sent in one message: others pass in between, and no server finds it too long.
INPUT_BYTES = 1 * MIB


class Process:
    """A process that ``client.start`` started. As long as there is a handle, its client stays open.

    Leaving a ``with`` block kills the process if it still runs, and waits for its end. Every method raises
    ClosedError when the connection is over, and ServerError when the server refuses.

    process_id: the client's name for the process. args: what was started.
    has_pipe: its stdin is a pipe.
    """

    def __init__(
        self,
        client: ExecServerClient,
        process_id: str,
        args: Sequence[str],
        state: ProcessState,
        has_pipe: bool = False,
    ) -> None:
        self._client = client
        self._state = state
        self._has_pipe = has_pipe
        self._feeder: Feeder | None = None
        self._stdout, self._stderr = BytesIO(), BytesIO()  # what communicate() has collected
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
        """Why it ended: ``exited`` and ``signaled`` by itself; otherwise what made the server end it.

        ``timeout`` is its ``time_limit``, ``terminated`` a call of ``kill`` or ``terminate``.
        """
        return self._state.exited.reason if self._state.exited else None

    def poll(self) -> int | None:
        """The exit code, or None if it still runs. Raises ClosedError when nobody can know any more."""
        ending = self._state.poll()
        return ending.exit_code if ending else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait up to ``timeout`` seconds for its end and return the exit code; all its own output has come by then.

        Unread output goes to a temporary file meanwhile. Raises TimeoutExpired, which does nothing to the process.
        """
        try:
            return self._state.wait_exit(Deadline(timeout)).exit_code
        except TimeoutError:
            raise TimeoutExpired(self.args, timeout or 0) from None

    # ---- output --------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[ProcessOutput]:
        """Yield output (with ``stream`` and ``chunk``) as it comes, until nothing can come any more.

        Raises ClosedError when the connection ends before that, OutputLost where output was given up.
        """
        return self.output()

    def output(self, drain_timeout: float | None = None) -> Iterator[ProcessOutput]:
        """As iteration, but wait for descendants that hold the streams up to ``drain_timeout`` seconds only."""
        while (output := self._state.next_output(Deadline(None), drain_timeout)) is not None:
            yield output

    def text_output(self, drain_timeout: float | None = None) -> Iterator[TextOutput]:
        """As ``output``, but decoded (``stream`` and ``text``), as ``communicate`` does it."""
        return decode_outputs(self.output(drain_timeout))

    def communicate(
        self,
        input: bytes | str | None = None,
        timeout: float | None = None,
        *,
        text: bool = False,
        drain_timeout: float = DRAIN_SECONDS,
    ) -> tuple[Any, Any]:
        """Wait up to ``timeout`` seconds for its end; return what it wrote to stdout (or terminal) and to stderr.

        input: what its stdin gets meanwhile, str as UTF-8, before it is ended; without input a pipe is ended at once.
        It is no error if the process does not want it.
        text: decode as UTF-8, wrong bytes replaced, line ends as "\\n".
        drain_timeout: seconds that descendants which hold the streams are waited for after its end.

        Raises OutputLost, and TimeoutExpired with the output so far, which is not lost for a second try; input goes
        on to be written, and can't be given again (ValueError). UnsupportedError when the server can't end input.
        """
        deadline = Deadline(timeout)
        self._feed(input)
        try:
            while (output := self._state.next_output(deadline, drain_timeout)) is not None:
                (self._stderr if output.stream == "stderr" else self._stdout).write(output.chunk)
        except TimeoutError:
            raise TimeoutExpired(self.args, timeout or 0, *self._result(text)) from None
        if self._feeder and self._feeder.error:
            raise self._feeder.error
        return self._result(text)

    def snapshot(self) -> ProcessSnapshotResult:
        """What the server retains of the output, by stream, whoever has read it, and whether the process runs."""
        return from_wire(ProcessSnapshotResult, self._call("process/snapshot"))

    # ---- input, terminal and signals -----------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write all of ``data`` to its stdin or terminal; wait until the server has passed it on.

        Raises ServerError, of kind ``stdinClosed`` when it has none any more.
        """
        view = memoryview(data)
        for start in range(0, len(view) or 1, INPUT_BYTES):
            self._call("process/write", chunk=encode_base64(bytes(view[start : start + INPUT_BYTES])))

    def close_stdin(self) -> None:
        """End its input behind what was written; more can't be. Harmless twice, without stdin and after its end.

        On a terminal its end-of-file character is sent, which a program that takes every key by itself does not
        take for the end.
        """
        self._call_if_running("process/closeStdin")

    def resize(self, rows: int, cols: int) -> None:
        """Give its terminal another size, in character cells; nothing happens after its end.

        Raises ServerError, of kind ``noTerminal`` when it has none.
        """
        self._call_if_running("process/resize", size={"rows": rows, "cols": cols})

    def send_signal(self, signal: int | str) -> None:
        """Send a signal to its group, on a terminal to the group in the foreground; nothing happens after its end.

        signal: ``signal.SIGUSR1`` or another number, "SIGUSR1" or another name, or one of the words ``interrupt``,
        ``terminate``, ``kill``, ``hangup``, ``quit``, ``user1``, ``user2``, ``stop`` and ``continue``. Raises
        ValueError for a number without a name on this machine: numbers differ between systems.
        """
        self._call_if_running("process/signal", signal=signal if isinstance(signal, str) else Signals(signal).name)

    def interrupt(self) -> None:
        """Send SIGINT, as Ctrl-C in a terminal does. See ``send_signal``."""
        self.send_signal("interrupt")

    def terminate(self, grace: float = GRACE_SECONDS) -> bool:
        """Ask it and its descendants to end (SIGTERM); after ``grace`` seconds the server kills what is left.

        Does not wait for that. True if it was running: then its end is still to come. For a SIGTERM with nothing
        behind it there is ``send_signal``. Raises UnsupportedError when the server can only kill.
        """
        self._client.server_info.require("processGracefulTerminate", "terminate")
        return self._terminate(mode={"graceful": {"timeoutMs": milliseconds(grace)}})

    def kill(self) -> bool:
        """Kill it and its descendants at once (SIGKILL). True if it was running: then its end is still to come.

        Raises CallTimeout, as ``terminate`` does, when the server does not answer within KILL_SECONDS.
        """
        return self._terminate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        try:
            if self.poll() is None:
                self.kill()
                self.wait(KILL_SECONDS)
        except ClosedError:
            pass  # the server ends what belongs to a connection with it

    def _feed(self, input: bytes | str | None) -> None:
        """Begin to write ``input``, or only to end a pipe."""
        if input is not None:
            self._client.server_info.require("processCloseStdin", "input")
            if self._feeder:
                raise ValueError("input was given before")
        elif self._feeder or not (self._has_pipe and self._client.server_info.offers("processCloseStdin")):
            return
        self._feeder = Feeder(self, memoryview(input.encode() if isinstance(input, str) else input or b""))

    def _terminate(self, **params: Any) -> bool:
        return bool(self._call("process/terminate", KILL_SECONDS, **params)["running"])

    def _call_if_running(self, method: str, **params: Any) -> None:
        """Call ``method``, which makes no difference to a process that has ended."""
        if self.poll() is not None:
            return
        try:
            self._call(method, **params)
        except ServerError as error:
            if error.kind not in ENDED_KINDS:
                raise

    def _call(self, method: str, timeout: float | None = None, **params: Any) -> dict[str, Any]:
        with self._state.waiting():
            return self._client.call(method, {"processId": self.process_id, **params}, timeout)

    def _result(self, text: bool) -> tuple[Any, Any]:
        stdout, stderr = self._stdout.getvalue(), self._stderr.getvalue()
        return (decode(stdout), decode(stderr)) if text else (stdout, stderr)


def milliseconds(seconds: float) -> int:
    """A time as the server wants it, rounded up."""
    return math.ceil(seconds * 1000)
