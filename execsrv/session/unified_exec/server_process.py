"""Commands on the machine of an exec server, whichever way the client is connected to it."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator

from execsrv.client.client import ExecServerClient
from execsrv.client.errors import ClosedError, ExecServerError, ServerError
from execsrv.client.events import EventBus
from execsrv.client.feeder import ENDED_KINDS
from execsrv.client.process import Process
from execsrv.protocol.processes import EnvPolicy
from execsrv.session.path_mapper import PathMapper
from execsrv.session.unified_exec.errors import ConnectionLost, ProcessIdInUse, StartFailed, WriteFailed
from execsrv.session.unified_exec.input_queue import InputQueue
from execsrv.session.unified_exec.request import ExecProcess, ExecRequest, UnifiedExecSessionFactory

logger = logging.getLogger(__name__)

#: How long a server may take to start a command, in seconds.
START_SECONDS = 30.0

#: The shell of a server that does not tell what its user's is, and where commands are there.
UNTOLD_SHELL = "bash"
UNTOLD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

#: The server's own environment, whole.
_SERVER_ENVIRONMENT = EnvPolicy("all", ignore_default_excludes=True)


class ExecServerSessionFactory:
    """Starts commands through ``client``, which stays the caller's.

    path_mapper: tells the server's name for a directory of the session; None when they have the same names.
    local: starts what needs descriptors of this program, which no server can have.
    """

    def __init__(
        self, client: ExecServerClient, path_mapper: PathMapper | None, local: UnifiedExecSessionFactory
    ) -> None:
        self._client = client
        self._path_mapper = path_mapper
        self._local = local

    @property
    def shell(self) -> str:
        """The shell of the server's user."""
        told = self._client.server_info.environment_info
        return told.shell.path if told else UNTOLD_SHELL

    @property
    def events(self) -> EventBus:
        """The client's bus."""
        return self._client.events

    def open(self, request: ExecRequest) -> ExecProcess:
        """Start a command, on the server or, if it inherits descriptors, here.

        Raises StartFailed, SandboxUnsupported, ProcessIdInUse and ConnectionLost.
        """
        request.refuse_sandbox()
        if request.inherited_fds:
            logger.info("command %s runs locally: a server can't give it descriptors of ours", request.process_id)
            return self._local.open(request)
        try:
            return ServerProcess(self._client, self._start(request))
        except ClosedError as error:
            raise ConnectionLost(error.reason) from error
        except (ExecServerError, UnicodeError) as error:
            if isinstance(error, ServerError) and error.kind == "duplicateProcess":
                raise ProcessIdInUse(request.process_id) from error
            raise StartFailed(str(error)) from error
        except ValueError as error:  # the client has a process of that id itself
            raise ProcessIdInUse(request.process_id) from error

    def _start(self, request: ExecRequest) -> Process:
        knows_policies = self._client.server_info.offers("envPolicy")
        return self._client.start(
            request.argv,
            cwd=self._path_mapper.to_remote(request.cwd) if self._path_mapper else request.cwd,
            env=request.env if knows_policies else {"PATH": UNTOLD_PATH, **request.env},
            env_policy=_SERVER_ENVIRONMENT if knows_policies else None,
            tty=request.tty,
            size=request.size,
            process_id=request.process_id,
            timeout=START_SECONDS,
        )


class ServerProcess:
    """A process of a server. See ExecProcess."""

    def __init__(self, client: ExecServerClient, handle: Process) -> None:
        self._client = client
        self._handle = handle
        self._input = InputQueue(functools.partial(_write, handle))

    @property
    def exit_code(self) -> int | None:
        """As the server told it."""
        return self._handle.returncode

    def output(self) -> Iterator[bytes]:
        """Yield what it writes, until its end. Raises ConnectionLost."""
        try:
            for output in self._handle.output(drain_timeout=0):
                yield output.chunk
        except ExecServerError as error:
            raise ConnectionLost(str(error)) from error

    def linger(self) -> None:
        """Drop what descendants write, until the server closes the streams or the connection ends."""
        with contextlib.suppress(ExecServerError):
            for _ in self._handle:
                pass

    def write(self, data: bytes, timeout: float) -> None:
        """Let a thread send ``data``, and wait up to ``timeout`` seconds for the terminal to take it.

        Raises WriteFailed and ConnectionLost.
        """
        self._input.put(data, timeout)

    def terminate(self, timeout: float) -> None:
        """Let the server kill it."""
        with contextlib.suppress(ExecServerError):  # when the connection is over, the server does so by itself
            self._client.call("process/terminate", {"processId": self._handle.process_id}, timeout)


def _write(handle: Process, data: bytes) -> None:
    """Write to a terminal, whose process may have ended."""
    try:
        handle.write(data)
    except ClosedError as error:
        raise ConnectionLost(error.reason) from error
    except ServerError as error:
        if error.kind not in ENDED_KINDS:
            raise WriteFailed(error.message) from error
