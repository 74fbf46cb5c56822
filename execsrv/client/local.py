"""A server on this machine, as a child of this program."""

from __future__ import annotations

import contextlib
import functools
import signal
import subprocess
import sys
from collections.abc import Sequence

from execsrv.client.channel import JsonChannel
from execsrv.client.client import CLIENT_NAME, ExecServerClient
from execsrv.client.errors import ClosedError, JsonError, ProtocolError, SpawnError
from execsrv.client.stdio_stream import StdioStream

#: How long a server may take to exit once its stdin is closed, in seconds. One of this project takes at most 5.
EXIT_SECONDS = 6.0

#: How long it may take once it is asked to by SIGTERM, in seconds.
TERM_SECONDS = 6.0

#: How long a killed server is waited for, in seconds.
KILL_SECONDS = 5.0


def spawn_local_exec_server(
    command: Sequence[str] | None = None, *, client_name: str = CLIENT_NAME, initialize_timeout: float = 10.0
) -> ExecServerClient:
    """Start a server that speaks over its stdin and stdout, and connect to it. Its stderr is this program's.

    command: the server; the default is this project's, run by this interpreter. It leads a session of its own: a
    Ctrl-C in the terminal is for this program, which then still has a server to end its processes with. So it
    can't ask for a password on the terminal either.

    Closing the client ends the server: its stdin is closed, and if that does not help in time it is asked to end
    by SIGTERM, and at last killed. Raises SpawnError when it can't be started or ends at once, JsonError or
    ProtocolError when it is no such server, and InitializeTimeout.
    """
    command = command or [sys.executable, "-m", "execsrv"]
    stream = ServerProcessStream(command)
    try:
        return ExecServerClient(
            functools.partial(JsonChannel, stream), client_name=client_name, initialize_timeout=initialize_timeout
        )
    except (JsonError, ProtocolError):
        raise
    except ClosedError as error:
        raise SpawnError(command, f"it ended with status {stream.returncode} before it answered") from error


class ServerProcessStream(StdioStream):
    """The stdin and stdout of a server that is started for it, and reaped when the stream is closed."""

    def __init__(self, command: Sequence[str]) -> None:
        try:
            self._server = subprocess.Popen(
                command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            raise SpawnError(command, str(error)) from error
        assert self._server.stdin and self._server.stdout
        super().__init__(self._server.stdout, self._server.stdin)

    @property
    def returncode(self) -> int | None:
        """The server's exit status, once it was reaped."""
        return self._server.returncode

    def close(self) -> None:
        """Close both ends and wait for the server; if it stays, ask it to end, and at last kill it."""
        super().close()
        # One that is stopped, or whose stdin a fork of this program holds, ends its processes only when it is asked to.
        ask, kill = (signal.SIGCONT, signal.SIGTERM), (signal.SIGKILL,)
        for timeout, signals in ((EXIT_SECONDS, ask), (TERM_SECONDS, kill), (KILL_SECONDS, ())):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._server.wait(timeout)
            for number in signals:
                self._server.send_signal(number)  # which does nothing to one that was reaped
