"""The words of the protocol as Python values: methods' params and results, and the events of a process.

Server and client share these. Field names are the wire's names in snake_case (``wire.py`` converts); the JSON
Schema files say which values are allowed. ``bytes`` travel as base64 in results and events; in params the base64
text is kept, since only the handler may judge it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

PROTOCOL_VERSION = "exec-server.v0"

#: Largest ``chunk`` of one output event, in bytes.
OUTPUT_CHUNK_BYTES = 64 * 1024

StreamName: TypeAlias = Literal["stdout", "stderr", "pty"]
ExitReason: TypeAlias = Literal["exited", "signaled", "terminated", "timeout", "connectionClosed", "shutdown"]


# ---- handshake -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InitializeParams:
    """Params of ``initialize``."""

    client_name: str


@dataclass(frozen=True, slots=True)
class Shell:
    """The server user's shell."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class EnvironmentInfo:
    """Where commands run when the client names neither directory nor environment."""

    shell: Shell
    executor_version: str
    cwd: str
    user_home_dir: str
    platform_os: str
    temp_dir: str


@dataclass(frozen=True, slots=True)
class InitializeResult:
    """Result of ``initialize``."""

    protocol_version: str
    session_id: str
    capabilities: dict[str, bool]
    environment_info: EnvironmentInfo


# ---- processes -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Size:
    """A terminal's size in character cells."""

    rows: int = 24
    cols: int = 80


@dataclass(frozen=True, slots=True)
class EnvPolicy:
    """How a child's environment is made from the server's own, in the order of the fields."""

    inherit: Literal["all", "core", "none"] = "all"
    ignore_default_excludes: bool = False
    exclude: list[str] = field(default_factory=list)
    set: dict[str, str] = field(default_factory=dict)
    include_only: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ProcessStartParams:
    """Params of ``process/start``."""

    process_id: str
    argv: list[str]
    cwd: str
    env: dict[str, str]
    tty: bool
    arg0: str | None = None
    sandbox: dict[str, Any] | None = None
    pipe_stdin: bool = False
    size: Size = field(default_factory=Size)
    env_policy: EnvPolicy | None = None
    window_bytes: int | None = None
    timeout_ms: int | None = None
    drain_timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ProcessStartResult:
    """Result of ``process/start``."""

    process_id: str


@dataclass(frozen=True, slots=True)
class ProcessReadParams:
    """Params of ``process/read``."""

    process_id: str
    after_seq: int = 0
    max_bytes: int | None = None
    wait_ms: int = 0


@dataclass(frozen=True, slots=True)
class RetainedChunk:
    """One retained piece of output."""

    seq: int
    stream: StreamName
    chunk: bytes


@dataclass(frozen=True, slots=True)
class ProcessReadResult:
    """Result of ``process/read``."""

    chunks: list[RetainedChunk]
    next_seq: int
    exited: bool
    exit_code: int | None
    closed: bool
    truncated: bool
    first_seq: int
    dropped_bytes: int
    failure: str | None

    @property
    def tells_end(self) -> bool:
        """Must the notification of an exit or a close be sent before this answer?"""
        return self.exited


@dataclass(frozen=True, slots=True)
class ProcessWriteParams:
    """Params of ``process/write``; ``chunk`` is base64."""

    process_id: str
    chunk: str


@dataclass(frozen=True, slots=True)
class ProcessWriteResult:
    """Result of ``process/write``."""

    accepted: bool = True
    status: str = "accepted"


@dataclass(frozen=True, slots=True)
class ProcessTerminateParams:
    """Params of ``process/terminate``: ``mode`` is as on the wire."""

    process_id: str
    mode: str | dict[str, dict[str, int]] = "force"

    @property
    def grace_ms(self) -> int | None:
        """The time between SIGTERM and SIGKILL; None for SIGKILL at once."""
        return None if isinstance(self.mode, str) else int(self.mode["graceful"]["timeoutMs"])


@dataclass(frozen=True, slots=True)
class ProcessTerminateResult:
    """Result of ``process/terminate``: had it not exited yet?"""

    running: bool


class ProcessHadEnded(ProcessTerminateResult):
    """That of a process which had exited: the notification of that must be sent before this answer."""

    tells_end: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class ProcessParams:
    """Params of the methods that take a process and nothing else."""

    process_id: str


@dataclass(frozen=True, slots=True)
class ProcessSignalParams:
    """Params of ``process/signal``: ``signal`` is a word such as ``interrupt``, or a name such as ``SIGUSR1``."""

    process_id: str
    signal: str


@dataclass(frozen=True, slots=True)
class ProcessResizeParams:
    """Params of ``process/resize``."""

    process_id: str
    size: Size


@dataclass(frozen=True, slots=True)
class ProcessWaitParams:
    """Params of ``process/wait``; without ``wait_ms`` it waits for the exit."""

    process_id: str
    wait_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ProcessWaitResult:
    """Result of ``process/wait``."""

    exited: bool
    exit_code: int | None
    signal: str | None
    reason: ExitReason | None
    closed: bool

    @property
    def tells_end(self) -> bool:
        """Must the notification of an exit or a close be sent before this answer?"""
        return self.exited


@dataclass(frozen=True, slots=True)
class ProcessSnapshotResult:
    """Result of ``process/snapshot``: what is retained, by stream."""

    stdout: bytes
    stderr: bytes
    terminal: bytes
    truncated: bool
    dropped_bytes: int
    exit_code: int | None
    running: bool

    @property
    def tells_end(self) -> bool:
        """Must the notification of an exit be sent before this answer?"""
        return not self.running


@dataclass(frozen=True, slots=True)
class ProcessDescription:
    """One process of ``process/list``."""

    process_id: str
    pid: int
    argv: list[str]
    cwd: str
    tty: bool
    started_at_ms: int
    running: bool
    exit_code: int | None
    closed: bool


@dataclass(frozen=True, slots=True)
class ProcessListResult:
    """Result of ``process/list``."""

    processes: list[ProcessDescription]

    @property
    def tells_end(self) -> bool:
        """Must the notifications of exits and closes be sent before this answer?"""
        return not all(process.running for process in self.processes)


@dataclass(frozen=True, slots=True)
class ProcessAckParams:
    """Params of the notification ``process/ack``: output up to ``seq`` has been taken."""

    process_id: str
    seq: int


# ---- events of a process, in their order ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProcessStarted:
    """The process runs as ``pid`` on the server's machine."""

    method: ClassVar[str] = "process/started"
    kind: ClassVar[str] = "started"
    process_id: str
    pid: int


@dataclass(frozen=True, slots=True)
class ProcessOutput:
    """Bytes that the process wrote, as it wrote them."""

    method: ClassVar[str] = "process/output"
    kind: ClassVar[str] = "output"
    process_id: str
    seq: int
    stream: StreamName
    chunk: bytes


@dataclass(frozen=True, slots=True)
class ProcessExited:
    """The process has ended and all that it had itself written came before.

    ``exit_code`` is its status, 128 + N when signal N ended it, -1 when it can't be known.
    """

    method: ClassVar[str] = "process/exited"
    kind: ClassVar[str] = "exited"
    process_id: str
    seq: int
    exit_code: int
    signal: str | None
    reason: ExitReason


@dataclass(frozen=True, slots=True)
class ProcessClosed:
    """Nothing follows. ``output_complete`` is false when the server gave the streams up."""

    method: ClassVar[str] = "process/closed"
    kind: ClassVar[str] = "closed"
    process_id: str
    seq: int
    output_complete: bool


# ---- first-cut dialect ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CommandExecParams:
    """Params of ``command/exec``. ``output_bytes_cap`` is accepted and has no effect."""

    process_id: str
    argv: list[str]
    cwd: str
    env: dict[str, str]
    tty: bool
    output_bytes_cap: int | None = None
    arg0: str | None = None


@dataclass(frozen=True, slots=True)
class CommandExecResult:
    """Result of ``command/exec``.

    The exit of the process that had the id before is sent first: hence ``tells_end``.
    """

    tells_end: ClassVar[bool] = True
    process_id: str
    pid: int
    running: bool = True
    exit_code: int | None = None
    stdout: str | None = None
    stderr: str | None = None


@dataclass(frozen=True, slots=True)
class CommandWriteResult:
    """Result of ``command/exec/write``."""

    accepted: bool = True


@dataclass(frozen=True, slots=True)
class CommandOutputDelta:
    """Bytes that a first-cut process wrote; a terminal's are ``stdout``."""

    method: ClassVar[str] = "command/exec/outputDelta"
    process_id: str
    stream: Literal["stdout", "stderr"]
    chunk: bytes


@dataclass(frozen=True, slots=True)
class CommandExited:
    """A first-cut process has ended; nothing of it follows and its id is free."""

    method: ClassVar[str] = "command/exec/exited"
    process_id: str
    exit_code: int


Event: TypeAlias = ProcessStarted | ProcessOutput | ProcessExited | ProcessClosed | CommandOutputDelta | CommandExited


# ---- files ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PathParams:
    """Params of the file methods that take a path and nothing else."""

    path: str


@dataclass(frozen=True, slots=True)
class ReadFileResult:
    """Result of ``fs/readFile``."""

    data_base64: bytes


@dataclass(frozen=True, slots=True)
class WriteFileParams:
    """Params of ``fs/writeFile``."""

    path: str
    data_base64: str


@dataclass(frozen=True, slots=True)
class CreateDirectoryParams:
    """Params of ``fs/createDirectory``."""

    path: str
    recursive: bool = True


@dataclass(frozen=True, slots=True)
class Metadata:
    """Result of ``fs/getMetadata``: of the target, save ``is_symlink``, which is of the path itself."""

    is_directory: bool
    is_file: bool
    is_symlink: bool
    size: int
    created_at_ms: int
    modified_at_ms: int


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """One entry of ``fs/readDirectory``; links are not followed.

    ``file_name_base64`` holds the bytes of a name that is not UTF-8.
    """

    file_name: str
    is_directory: bool
    is_file: bool
    is_symlink: bool
    file_name_base64: bytes | None = field(default=None, metadata={"omit_none": True})


@dataclass(frozen=True, slots=True)
class ReadDirectoryResult:
    """Result of ``fs/readDirectory``."""

    entries: list[DirectoryEntry]


@dataclass(frozen=True, slots=True)
class RemoveParams:
    """Params of ``fs/remove``."""

    path: str
    recursive: bool = True
    force: bool = True


@dataclass(frozen=True, slots=True)
class CopyParams:
    """Params of ``fs/copy``."""

    source_path: str
    destination_path: str
    recursive: bool = False


@dataclass(frozen=True, slots=True)
class OpenParams:
    """Params of ``fs/open``."""

    handle_id: str
    path: str
    mode: Literal["read", "write"] = "read"


@dataclass(frozen=True, slots=True)
class OpenResult:
    """Result of ``fs/open``."""

    handle_id: str


@dataclass(frozen=True, slots=True)
class ReadBlockParams:
    """Params of ``fs/readBlock``."""

    handle_id: str
    offset: int
    len: int


@dataclass(frozen=True, slots=True)
class ReadBlockResult:
    """Result of ``fs/readBlock``: does the file end where the chunk ends?"""

    chunk: bytes
    eof: bool


@dataclass(frozen=True, slots=True)
class WriteBlockParams:
    """Params of ``fs/writeBlock``; ``chunk`` is base64."""

    handle_id: str
    offset: int
    chunk: str


@dataclass(frozen=True, slots=True)
class CloseParams:
    """Params of ``fs/close``."""

    handle_id: str
    commit: bool = False


@dataclass(frozen=True, slots=True)
class Empty:
    """A result without fields."""
