"""The client: commands and files on the machine of an exec server, for plain synchronous programs."""

from __future__ import annotations

import functools
import os
import subprocess
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeAlias, TypedDict, TypeVar, Unpack

from execsrv.client import lifetime
from execsrv.client.channel import Channel, JsonChannel, OnClosed, OnEvent, Result
from execsrv.client.deadline import Deadline
from execsrv.client.errors import CallTimeout, InitializeTimeout, ProtocolError, TimeoutExpired
from execsrv.client.events import EventBus
from execsrv.client.filesystem import FileSystem
from execsrv.client.launcher import Launcher
from execsrv.client.pacing import WINDOW_BYTES
from execsrv.client.paths import AnyPath, wire_path
from execsrv.client.process import DRAIN_SECONDS, KILL_SECONDS, Process, milliseconds
from execsrv.client.process_state import ProcessState
from execsrv.client.receiver import EventReceiver
from execsrv.client.router import Router
from execsrv.client.server_info import ServerInfo
from execsrv.client.stdio_stream import Descriptor, StdioStream
from execsrv.config import ExecServerConfig
from execsrv.protocol.processes import EnvPolicy, ProcessDescription, ProcessListResult, ProcessStartParams, Size
from execsrv.wire import from_wire

CLIENT_NAME = "execsrv-python"

#: How long callbacks may take, after ``close``, with the events that came before, in seconds.
CALLBACK_SECONDS = 5.0

#: The server's own environment, whole.
_SERVER_ENVIRONMENT = EnvPolicy("all", ignore_default_excludes=True)

T = TypeVar("T")
OpenChannel: TypeAlias = Callable[[OnEvent, OnClosed], Channel]


class RunOptions(TypedDict, total=False):
    """The options of ``start`` that ``run`` takes too."""

    cwd: AnyPath | None
    env: Mapping[str, str] | None
    env_policy: EnvPolicy | None
    tty: bool
    size: Size | None
    arg0: str | None
    process_id: str | None
    time_limit: float | None
    drain_limit: float | None


class ExecServerClient:
    """A connection to an exec server.

    It is a context manager. Leaving it, dropping the last reference to it and to what it gave out, or the end of
    the interpreter ends the connection and with it all processes that were started over it. All methods may be
    called by any thread, and raise ClosedError when the connection is over.

    open_channel: makes the connection from two callbacks; see Channel. The ``connect_...`` methods know some.
    """

    def __init__(
        self, open_channel: OpenChannel, *, client_name: str = CLIENT_NAME, initialize_timeout: float = 10.0
    ) -> None:
        self._router = Router()
        self._channel = open_channel(_weak(self._router.route), _weak(self._router.end))
        lifetime.close_with(self, self._channel)
        self._launcher = Launcher(self._channel, self._router)
        try:
            self._server_info = self._initialize(client_name, initialize_timeout)
        except BaseException:
            self.close()
            raise

    @classmethod
    def connect_stdio(
        cls,
        read: Descriptor,
        write: Descriptor,
        *,
        client_name: str = CLIENT_NAME,
        initialize_timeout: float = 10.0,
    ) -> Self:
        """Talk to a server over its stdout (``read``) and stdin (``write``): descriptors or unbuffered files.

        They belong to the client from now on. Raises InitializeTimeout and ClosedError.
        """
        return cls(
            functools.partial(JsonChannel, StdioStream(read, write)),
            client_name=client_name,
            initialize_timeout=initialize_timeout,
        )

    @classmethod
    def connect_websocket(
        cls,
        url: str,
        *,
        client_name: str = CLIENT_NAME,
        connect_timeout: float = 10.0,
        initialize_timeout: float = 10.0,
    ) -> Self:
        """Connect to ``url`` (``ws://HOST:PORT``). Times are in seconds.

        Raises ConnectError, ConnectTimeout, InitializeTimeout and ClosedError.
        """
        from execsrv.client.websocket_stream import open_websocket  # loads a library that only this needs

        return cls(
            functools.partial(JsonChannel, open_websocket(url, connect_timeout)),
            client_name=client_name,
            initialize_timeout=initialize_timeout,
        )

    @classmethod
    def connect_in_process(
        cls, *, client_name: str = CLIENT_NAME, initialize_timeout: float = 10.0, config: ExecServerConfig | None = None
    ) -> Self:
        """Be one's own server: its methods are called directly, on a hub in this program. Linux only.

        config: the server's limits.
        """
        from execsrv.client.in_process import InProcessChannel  # loads gevent and the server

        return cls(
            functools.partial(InProcessChannel, config or ExecServerConfig()),
            client_name=client_name,
            initialize_timeout=initialize_timeout,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, and wait until the server has ended what belongs to it. Twice is harmless.

        Callbacks still get the events that came before.
        """
        self._router.leaving = True
        lifetime.close(self._channel)
        self._router.bus.join(CALLBACK_SECONDS)

    @property
    def server_info(self) -> ServerInfo:
        """What the server told about itself: session id, capabilities and environment."""
        return self._server_info

    @property
    def events(self) -> EventBus:
        """The bus: ``client.events.subscribe(callback, process_id=None, kind=None)``."""
        return self._router.bus

    @property
    def fs(self) -> FileSystem:
        """The server's files."""
        return FileSystem(self, has_blocks=self._server_info.offers("fsBlocks"))

    def list_processes(self) -> list[ProcessDescription]:
        """The connection's processes, oldest first: those that run, and those whose output the server still has."""
        return from_wire(ProcessListResult, self.call("process/list")).processes

    def event_receiver(
        self, timeout: float | None = None, process_id: str | None = None, kind: str | None = None
    ) -> EventReceiver:
        """An iterator over the events from now on, that waits up to ``timeout`` seconds for each."""
        return EventReceiver(self, self.events, timeout, process_id, kind)

    def call(self, method: str, params: Mapping[str, Any] | None = None, timeout: float | None = None) -> Result:
        """Call any method of the protocol and return its result, both as they are on the wire.

        Raises ServerError, ClosedError, and CallTimeout when there is no answer within ``timeout`` seconds.
        """
        return self._channel.request(method, dict(params or {}), timeout)

    def start(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        cwd: AnyPath | None = None,
        env: Mapping[str, str] | None = None,
        env_policy: EnvPolicy | None = None,
        tty: bool = False,
        size: Size | None = None,
        arg0: str | None = None,
        pipe_stdin: bool = False,
        capture: bool = True,
        process_id: str | None = None,
        time_limit: float | None = None,
        drain_limit: float | None = None,
        timeout: float | None = None,
    ) -> Process:
        """Start a process on the server's machine and return its handle.

        cwd: its directory; None is the server's own.
        env: its whole environment, or what is laid over ``env_policy``; if both are None it has the server's own.
        tty, size: give it a terminal of its own, of that size.
        arg0: what it sees as its own name.
        pipe_stdin: without a terminal, let ``write`` reach its stdin, which else is at its end.
        capture: keep output for the handle. Without it, output that no subscriber or receiver wants is dropped.
        process_id: a name for it, if it matters; else one is made up.
        time_limit: how long it may live, in seconds; then the server ends it (``reason`` is ``timeout``): by SIGTERM,
        and 2 seconds later by SIGKILL.
        drain_limit: how long descendants may hold its streams after its end, in seconds; then the server closes these.
        timeout: how long the start may take, in seconds.

        A limit is the server's to keep, whatever becomes of this program; a timeout, here as in every other call, is
        only how long somebody here waits. No output for a while ends nothing.

        Raises ServerError when it can't be started, for instance StartNotFound, which is a FileNotFoundError too;
        CallTimeout (it is killed then, should it start after all), ClosedError, UnsupportedError when the server does
        not know what is asked for, TypeError when ``argv`` is one string, and ValueError when ``process_id`` is in use.
        """
        server = self._server_info
        params = ProcessStartParams(
            process_id or os.urandom(6).hex(),
            _check_argv(argv),
            server.cwd if cwd is None else wire_path(cwd),
            dict(env or {}),
            tty,
            arg0,
            size=size or Size(),
            pipe_stdin=pipe_stdin,
            env_policy=_SERVER_ENVIRONMENT if env is None and env_policy is None else env_policy,
            window_bytes=WINDOW_BYTES if server.offers("processAck") else None,
            timeout_ms=None if time_limit is None else milliseconds(time_limit),
            drain_timeout_ms=None if drain_limit is None else milliseconds(drain_limit),
        )
        _check_offered(server, params)
        pacer = self._launcher.new_pacer() if params.window_bytes else None
        state = ProcessState(capture, pacer, tells_close=server.offers("processClosed"))
        process_id = self._launcher.launch(params, state, timeout)
        return Process(self, process_id, params.argv, state, has_pipe=pipe_stdin and not tty)

    def run(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        input: bytes | str | None = None,
        timeout: float | None = None,
        check: bool = False,
        text: bool = False,
        drain_timeout: float = DRAIN_SECONDS,
        **options: Unpack[RunOptions],
    ) -> subprocess.CompletedProcess[Any]:
        """Run a command to its end, as ``subprocess.run`` does with captured output.

        timeout: seconds after which it is killed. check: raise subprocess.CalledProcessError unless it ends with 0.
        input, text, drain_timeout: see Process.communicate; without input its stdin is at its end, or its terminal.
        options: see ``start``.

        Raises what these raise, and TimeoutExpired with the output until then. On every way out it is dead.
        """
        deadline = Deadline(timeout)
        try:
            process = self.start(argv, timeout=timeout, pipe_stdin=input is not None, **options)
        except CallTimeout:
            raise TimeoutExpired(argv, timeout or 0) from None
        communicate = functools.partial(process.communicate, text=text, drain_timeout=drain_timeout)
        with process:
            try:
                output, stderr = communicate(input, deadline.remaining())
            except TimeoutExpired:
                process.kill()
                output, stderr = communicate(timeout=KILL_SECONDS)
                raise TimeoutExpired(process.args, timeout or 0, output, stderr) from None
        completed = subprocess.CompletedProcess(process.args, process.wait(), output, stderr)
        if check:
            completed.check_returncode()
        return completed

    def _initialize(self, client_name: str, timeout: float) -> ServerInfo:
        try:
            result = self._channel.request("initialize", {"clientName": client_name}, timeout)
            self._channel.notify("initialized", {})
            return from_wire(ServerInfo, result)
        except CallTimeout:
            raise InitializeTimeout(timeout) from None
        except TypeError as error:
            raise ProtocolError(f"bad result of initialize: {error}") from error


def _check_argv(argv: Sequence[str | os.PathLike[str]]) -> list[str]:
    if isinstance(argv, str | bytes):
        raise TypeError("argv is a list of strings; a command line for the shell is ['sh', '-c', line]")
    return [os.fspath(argument) for argument in argv]


def _check_offered(server: ServerInfo, params: ProcessStartParams) -> None:
    """Raise UnsupportedError for what the server would ignore, and so do something else."""
    if params.env_policy:
        server.require("envPolicy", "an environment that is not given whole")
    if params.timeout_ms is not None:
        server.require("processTimeout", "time_limit")
    if params.drain_timeout_ms is not None:
        server.require("processDrainTimeout", "drain_limit")


def _weak(method: Callable[[T], None]) -> Callable[[T], None]:
    """Like ``method``, but without keeping its object alive; nothing happens once that is gone."""
    reference = weakref.WeakMethod(method)

    def call(argument: T) -> None:
        alive = reference()
        if alive:
            alive(argument)

    return call
