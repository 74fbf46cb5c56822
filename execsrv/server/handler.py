"""What the methods act on: one peer's handshake, processes and files. Knows no JSON, no socket, no dialect."""

from __future__ import annotations

import enum
import functools
import os
import pwd
import sys
from urllib.parse import quote

import gevent

from execsrv.config import ExecServerConfig
from execsrv.errors import InvalidRequest
from execsrv.protocol.common import ExitReason
from execsrv.protocol.handshake import PROTOCOL_VERSION, EnvironmentInfo, InitializeParams, InitializeResult, Shell
from execsrv.server.filesystem import FileSystem
from execsrv.server.processes.first_cut import FirstCut
from execsrv.server.processes.process import Sink
from execsrv.server.processes.supervisor import Supervisor
from execsrv.server.processes.table import ProcessTable
from execsrv.server.workers import Workers
from execsrv.version import __version__

#: What this server offers beyond the first version of the protocol.
CAPABILITIES = dict.fromkeys(
    [
        "envPolicy",
        "fsBlocks",
        "processAck",
        "processClosed",
        "processCloseStdin",
        "processDrainTimeout",
        "processGracefulTerminate",
        "processList",
        "processResize",
        "processSignal",
        "processSnapshot",
        "processStarted",
        "processTimeout",
        "processWait",
    ],
    True,
)


#: How long an end waits for the files that are open to be closed; on a disk that is stuck they are closed later.
CLOSE_FILES_S = 0.5


class Handshake(enum.Enum):
    """How far the peer has come."""

    NEW = enum.auto()
    ANSWERED = enum.auto()
    READY = enum.auto()


#: What a method is refused with that wants the handshake done; a missing entry lets it pass.
REFUSALS = {
    Handshake.NEW: "client must call initialize before using exec methods",
    Handshake.ANSWERED: "client must send initialized before using exec methods",
}


class Handler:
    """Typed methods of one connection: each takes a params object and returns a result or raises RpcError."""

    def __init__(self, config: ExecServerConfig, workers: Workers, sink: Sink) -> None:
        self._workers = workers
        self._supervisor = Supervisor(config, workers)
        self._handshake = Handshake.NEW
        self.processes = ProcessTable(config, self._supervisor, sink)
        self.first_cut = FirstCut(self._supervisor, sink)
        self.files = FileSystem(config)

    def initialize(self, params: InitializeParams) -> InitializeResult:
        """``initialize``: once a connection."""
        if self._handshake is not Handshake.NEW:
            raise InvalidRequest("initialize may only be sent once per connection", kind="alreadyInitialized")
        result = InitializeResult(PROTOCOL_VERSION, os.urandom(16).hex(), CAPABILITIES, environment_info())
        self._handshake = Handshake.ANSWERED
        return result

    def initialized(self) -> None:
        """``initialized``: from now on every method is open."""
        if self._handshake is Handshake.NEW:
            raise InvalidRequest("received `initialized` notification before `initialize`", kind="notInitialized")
        self._handshake = Handshake.READY

    def check_ready(self) -> None:
        """Raise InvalidRequest until the handshake is done."""
        refusal = REFUSALS.get(self._handshake)
        if refusal:
            raise InvalidRequest(refusal, kind="notInitialized")

    def end_processes(self, reason: ExitReason, timeout: float) -> None:
        """Kill and reap every process; wait for that at most ``timeout`` seconds. Twice is harmless."""
        self._supervisor.end(reason, timeout)
        self.processes.close()

    def break_off(self) -> None:
        """End a copy that is under way, which need never end by itself; no other file is opened any more."""
        self.files.end()

    def end(self, reason: ExitReason, timeout: float) -> None:
        """End the processes as ``end_processes`` does, then close the files that are open. Twice is harmless.

        They are closed on a thread of the file requests. A request under way is not waited for: it closes its own
        handle; only a copy, which need never end, is broken off.
        """
        self.end_processes(reason, timeout)
        if self.files.end():
            gevent.spawn(self._close_files).join(CLOSE_FILES_S)

    def _close_files(self) -> None:
        try:
            self._workers.files.call(self.files.handles.close_all)
        except RuntimeError:  # the system has no thread for it, and nobody else would close them
            self.files.handles.close_all()


def environment_info() -> EnvironmentInfo:
    """What a command finds on this machine."""
    shell, home = _user()
    shell = os.environ.get("SHELL") or shell
    return EnvironmentInfo(
        shell=Shell(os.path.basename(shell), shell),
        executor_version=__version__,
        cwd=_working_directory(),
        user_home_dir=os.environ.get("HOME") or home,
        platform_os=sys.platform,
        temp_dir=os.environ.get("TMPDIR") or "/tmp",
    )


@functools.cache
def _user() -> tuple[str, str]:
    """Shell and home directory of our user; asked once, since the system may ask a network."""
    try:
        user = pwd.getpwuid(os.getuid())
    except KeyError:  # a container's user without an entry
        return "/bin/sh", "/"
    return user.pw_shell or "/bin/sh", user.pw_dir


def _working_directory() -> str:
    """Ours, as a URI when it is not UTF-8; the root when ours is gone."""
    try:
        path = os.getcwdb()
        return path.decode()
    except UnicodeDecodeError:
        return "file://" + quote(path)
    except FileNotFoundError:
        return "/"
