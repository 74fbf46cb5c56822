"""What subscribers are told of a command: its begin, what it writes, what it is given, and its end, in this order.

They go over the bus of the backend: with a server that is the client's, beside the client's own events. Each has the
``process_id`` that the process has there, the session id as text, and a ``kind`` to subscribe to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from execsrv.client.notifications import Announcement
from execsrv.session.unified_exec.head_tail_buffer import RetainedOutput


@dataclass(frozen=True, slots=True)
class ExecCommandBegin(Announcement):
    """The command was started; ``cwd`` is the session's name for its directory."""

    kind: ClassVar[str] = "begin"
    process_id: str
    argv: tuple[str, ...]
    cwd: str
    tty: bool


@dataclass(frozen=True, slots=True)
class ExecCommandOutputDelta(Announcement):
    """The command wrote ``chunk``, to stdout, stderr or its terminal."""

    kind: ClassVar[str] = "output_delta"
    process_id: str
    chunk: bytes

    @property
    def size(self) -> int:
        """The bytes of the chunk."""
        return len(self.chunk)


@dataclass(frozen=True, slots=True)
class TerminalInteraction(Announcement):
    """``stdin`` is about to be written to the command's terminal."""

    kind: ClassVar[str] = "terminal_interaction"
    process_id: str
    stdin: bytes

    @property
    def size(self) -> int:
        """The bytes that are written."""
        return len(self.stdin)


@dataclass(frozen=True, slots=True)
class ExecCommandEnd(Announcement):
    """The command has ended, or (``exit_code`` -1) nobody can know any more.

    transcript: all that it wrote, as far as that is retained. duration: how long it ran, in seconds.
    """

    kind: ClassVar[str] = "end"
    process_id: str
    exit_code: int
    transcript: RetainedOutput
    duration: float

    @property
    def size(self) -> int:
        """The bytes of the transcript."""
        return self.transcript.total_bytes - self.transcript.omitted_bytes
