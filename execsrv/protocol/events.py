"""What the server tells of processes, in the order in which it comes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from execsrv.protocol.common import ExitReason, StreamName


@dataclass(slots=True)
class ProcessStarted:
    """The process runs as ``pid`` on the server's machine."""

    method: ClassVar[str] = "process/started"
    kind: ClassVar[str] = "started"
    process_id: str
    pid: int


@dataclass(slots=True)
class ProcessOutput:
    """Bytes that the process wrote, as it wrote them."""

    method: ClassVar[str] = "process/output"
    kind: ClassVar[str] = "output"
    process_id: str
    seq: int
    stream: StreamName
    chunk: bytes


@dataclass(slots=True)
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


@dataclass(slots=True)
class ProcessClosed:
    """Nothing follows. ``output_complete`` is false when the server gave the streams up."""

    method: ClassVar[str] = "process/closed"
    kind: ClassVar[str] = "closed"
    process_id: str
    seq: int
    output_complete: bool


@dataclass(slots=True)
class CommandOutputDelta:
    """Bytes that a first-cut process wrote; a terminal's are ``stdout``."""

    method: ClassVar[str] = "command/exec/outputDelta"
    process_id: str
    stream: Literal["stdout", "stderr"]
    chunk: bytes


@dataclass(slots=True)
class CommandExited:
    """A first-cut process has ended; nothing of it follows and its id is free."""

    method: ClassVar[str] = "command/exec/exited"
    process_id: str
    exit_code: int


Event: TypeAlias = ProcessStarted | ProcessOutput | ProcessExited | ProcessClosed | CommandOutputDelta | CommandExited
