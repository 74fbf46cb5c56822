"""Params and results of the ``process/*`` methods."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from execsrv.protocol.common import ExitReason, StreamName


@dataclass(slots=True)
class Size:
    """A terminal's size in character cells."""

    rows: int = 24
    cols: int = 80


@dataclass(slots=True)
class EnvPolicy:
    """How a child's environment is made from the server's own, in the order of the fields."""

    inherit: Literal["all", "core", "none"] = "all"
    ignore_default_excludes: bool = False
    exclude: list[str] = field(default_factory=list)
    set: dict[str, str] = field(default_factory=dict)
    include_only: list[str] = field(default_factory=list)


@dataclass(slots=True)
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


@dataclass(slots=True)
class ProcessStartResult:
    """Result of ``process/start``."""

    process_id: str


@dataclass(slots=True)
class ProcessReadParams:
    """Params of ``process/read``."""

    process_id: str
    after_seq: int = 0
    max_bytes: int | None = None
    wait_ms: int = 0


@dataclass(slots=True)
class RetainedChunk:
    """One retained piece of output."""

    seq: int
    stream: StreamName
    chunk: bytes


@dataclass(slots=True)
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


@dataclass(slots=True)
class ProcessWriteParams:
    """Params of ``process/write``; ``chunk`` is base64."""

    process_id: str
    chunk: str


@dataclass(slots=True)
class ProcessWriteResult:
    """Result of ``process/write``."""

    accepted: bool = True
    status: str = "accepted"


@dataclass(slots=True)
class ProcessTerminateParams:
    """Params of ``process/terminate``: ``mode`` is as on the wire."""

    process_id: str
    mode: str | dict[str, dict[str, int]] = "force"

    @property
    def grace_ms(self) -> int | None:
        """The time between SIGTERM and SIGKILL; None for SIGKILL at once."""
        return None if isinstance(self.mode, str) else int(self.mode["graceful"]["timeoutMs"])


@dataclass(slots=True)
class ProcessTerminateResult:
    """Result of ``process/terminate``: had it not exited yet?"""

    running: bool


class ProcessHadEnded(ProcessTerminateResult):
    """That of a process which had exited: the notification of that must be sent before this answer."""

    tells_end: ClassVar[bool] = True


@dataclass(slots=True)
class ProcessParams:
    """Params of the methods that take a process and nothing else."""

    process_id: str


@dataclass(slots=True)
class ProcessSignalParams:
    """Params of ``process/signal``: ``signal`` is a word such as ``interrupt``, or a name such as ``SIGUSR1``."""

    process_id: str
    signal: str


@dataclass(slots=True)
class ProcessResizeParams:
    """Params of ``process/resize``."""

    process_id: str
    size: Size


@dataclass(slots=True)
class ProcessWaitParams:
    """Params of ``process/wait``; without ``wait_ms`` it waits for the exit."""

    process_id: str
    wait_ms: int | None = None


@dataclass(slots=True)
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


@dataclass(slots=True)
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


@dataclass(slots=True)
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


@dataclass(slots=True)
class ProcessListResult:
    """Result of ``process/list``."""

    processes: list[ProcessDescription]

    @property
    def tells_end(self) -> bool:
        """Must the notifications of exits and closes be sent before this answer?"""
        return not all(process.running for process in self.processes)


@dataclass(slots=True)
class ProcessAckParams:
    """Params of the notification ``process/ack``: output up to ``seq`` has been taken."""

    process_id: str
    seq: int
