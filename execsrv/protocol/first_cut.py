"""Params and results of the ``command/exec`` methods, the protocol's first dialect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(slots=True)
class CommandExecParams:
    """Params of ``command/exec``. ``output_bytes_cap`` is accepted and has no effect."""

    process_id: str
    argv: list[str]
    cwd: str
    env: dict[str, str]
    tty: bool
    output_bytes_cap: int | None = None
    arg0: str | None = None


@dataclass(slots=True)
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


@dataclass(slots=True)
class CommandWriteResult:
    """Result of ``command/exec/write``."""

    accepted: bool = True
