"""What is asked of a backend: to start a command, and what the manager needs of one that runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from execsrv.client.events import EventBus
from execsrv.config import MIB
from execsrv.protocol.processes import Size
from execsrv.session.unified_exec.errors import MissingCommand, SandboxUnsupported, WriteFailed

#: The exit code of a process whose end nobody can know.
UNKNOWN_EXIT_CODE = -1

#: Input that may wait for a process that does not read it.
MAX_INPUT_BYTES = 8 * MIB


@dataclass(frozen=True, slots=True)
class ExecRequest:
    """A command that is ready to run. Raises MissingCommand when ``argv`` is empty.

    process_id: its name in the events.
    cwd: an absolute path of the session, which a backend maps to its own.
    env: variables laid over those that the backend itself has.
    tty: on a terminal of ``size``, which takes input; else on pipes, with an empty stdin.
    inherited_fds: descriptors of this program that it needs under the same numbers.
    sandbox: the sandbox that it must not run without; None for a plain process.
    """

    process_id: str
    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str] = field(default_factory=dict)
    tty: bool = False
    size: Size = field(default_factory=Size)
    inherited_fds: Sequence[int] = ()
    sandbox: str | None = None

    def __post_init__(self) -> None:
        if not self.argv:
            raise MissingCommand

    def refuse_sandbox(self) -> None:
        """For backends that have none: raise SandboxUnsupported when the command needs one."""
        if self.sandbox is not None:
            raise SandboxUnsupported(self.sandbox)


class ExecProcess(Protocol):
    """A process that was started, wherever it is.

    One thread takes all of ``output`` and then calls ``linger``, which frees what the process holds here. The rest is
    for any thread.
    """

    @property
    def exit_code(self) -> int | None:
        """128 + N when signal N ended it, -1 when it can't be known; it is there once ``output`` came to its end."""

    def output(self) -> Iterator[bytes]:
        """Wait for what it writes, stdout and stderr as they come, until it has ended and all of that is through.

        Descendants that still hold its streams are not waited for. Raises ConnectionLost.
        """

    def linger(self) -> None:
        """After ``output``: drop what descendants write, until none of them is left or ``terminate`` was called."""

    def write(self, data: bytes, timeout: float) -> None:
        """Pass ``data`` on to its terminal; what is not taken within ``timeout`` seconds is taken later, in order.

        What comes after its end is dropped. Raises WriteFailed and ConnectionLost.
        """

    def terminate(self, timeout: float) -> None:
        """Kill it and its descendants; wait up to ``timeout`` seconds to get that across, and not for their end.

        Harmless twice and after its end.
        """


class UnifiedExecSessionFactory(Protocol):
    """A backend: starts commands on some machine."""

    @property
    def shell(self) -> str:
        """The shell there that a command line is for when nobody names one."""

    @property
    def events(self) -> EventBus:
        """The bus for what its commands do."""

    def open(self, request: ExecRequest) -> ExecProcess:
        """Start a command. Raises StartFailed, ProcessIdInUse for one, and ConnectionLost."""


def check_room(waiting: int) -> None:
    """Raise WriteFailed when ``waiting`` bytes of input would be more than may wait."""
    if waiting > MAX_INPUT_BYTES:
        raise WriteFailed("it does not read what it was given before")
