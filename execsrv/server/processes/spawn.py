"""Starts a child: its pid, its pidfd and the server's ends of its pipes or terminal.

Everything here may block on a disk, so it runs on a thread.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from execsrv.errors import InternalError
from execsrv.protocol.common import StreamName
from execsrv.server.paths import shown
from execsrv.server.processes.command import Command
from execsrv.server.processes.nofile import give_back, inherited_limit
from execsrv.server.processes.posix_spawn import FileActions
from execsrv.server.processes.terminal import Terminal

#: Where a program is looked for when the child's environment has no PATH (confstr's _CS_PATH).
DEFAULT_PATH = b"/bin:/usr/bin"


@dataclass(frozen=True, slots=True)
class Child:
    """A started child; whoever holds it owns its descriptors.

    On a terminal, which is both input and output, there are no pipes.
    """

    pid: int
    pidfd: int
    terminal: Terminal | None = None
    stdin: int | None = None
    outputs: dict[StreamName, int] = field(default_factory=dict)


def spawn(command: Command) -> Child:
    """Start ``command`` as the leader of a new session.

    Raises InternalError, which names the program or the directory, when the system refuses; nothing is left then.
    """
    try:
        program = _find_program(command)
        with ExitStack() as on_failure, ExitStack() as childs_ends, FileActions() as actions:
            connect = _connect_pipes if command.size is None else _connect_terminal
            ends = connect(command, actions, on_failure, childs_ends)
            actions.close_from(3)
            actions.chdir(command.cwd)
            with inherited_limit(newest_fd=max(_descriptors(ends))):
                pid = actions.spawn(program, command.argv, command.env)
            child = Child(pid, _open_pidfd(pid), **ends)
            on_failure.pop_all()
    except OSError as error:
        raise _failure(command, error) from None
    give_back(pid)
    return child


def _find_program(command: Command) -> bytes:
    """The path of the program as execvp(3) would find it with the child's own PATH and directory."""
    if b"/" in command.program:
        return command.program
    refused = False
    for candidate in _candidates(command):
        if os.path.isfile(candidate):
            if os.access(candidate, os.X_OK):
                return candidate
            refused = True
    if refused:
        raise PermissionError(13, os.strerror(13))
    raise FileNotFoundError(2, os.strerror(2))


def _candidates(command: Command) -> Iterator[bytes]:
    if command.program:
        for directory in command.env.get(b"PATH", DEFAULT_PATH).split(b":"):
            yield os.path.join(command.cwd, directory, command.program)


def _connect_pipes(
    command: Command, actions: FileActions, on_failure: ExitStack, childs_ends: ExitStack
) -> dict[str, Any]:
    """Make the child's descriptors 0, 1 and 2; return the server's ends, which ``on_failure`` closes."""
    stdin = None
    if command.pipe_stdin:
        childs_end, stdin = os.pipe()
        _closing(childs_ends, childs_end)
        _closing(on_failure, stdin)
        actions.dup2(childs_end, 0)
    else:
        actions.open(0, b"/dev/null", os.O_RDONLY)
    outputs = {}
    for target, name in enumerate(("stdout", "stderr"), start=1):
        outputs[name], childs_end = os.pipe()
        _closing(childs_ends, childs_end)
        _closing(on_failure, outputs[name])
        actions.dup2(childs_end, target)
    return {"stdin": stdin, "outputs": outputs}


def _connect_terminal(
    command: Command, actions: FileActions, on_failure: ExitStack, childs_ends: ExitStack
) -> dict[str, Any]:
    """A session leader's first terminal becomes its controlling one as it is opened (tty_ioctl(4))."""
    assert command.size
    master, slave = os.openpty()
    _closing(childs_ends, slave)
    terminal = Terminal(master, command.size)
    on_failure.callback(terminal.close)
    actions.open(0, os.ttyname(slave).encode(), os.O_RDWR)
    actions.dup2(0, 1)
    actions.dup2(0, 2)
    return {"terminal": terminal}


def _descriptors(ends: dict[str, Any]) -> list[int]:
    return [ends["terminal"].fd] if "terminal" in ends else list(ends["outputs"].values())


def _closing(stack: ExitStack, fd: int) -> None:
    stack.callback(os.close, fd)


def _open_pidfd(pid: int) -> int:
    """The pidfd of a child that nobody has waited for yet, so that its number is still its own."""
    try:
        return os.pidfd_open(pid)
    except OSError:  # no descriptor left: a child that can't be watched must not run
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


def _failure(command: Command, error: OSError) -> InternalError:
    """Say what was at fault: the directory when it can't be entered, else the program."""
    subject, path = "program", command.program
    if not os.path.isdir(command.cwd) or not os.access(command.cwd, os.X_OK):
        subject, path = "cwd", command.cwd
        error = _directory_error(command.cwd) or error
    kinds = {FileNotFoundError: "spawnNotFound", NotADirectoryError: "spawnNotFound"}
    kind = kinds.get(type(error), "spawnPermissionDenied" if isinstance(error, PermissionError) else "spawnFailed")
    failed = {"program": "start program", "cwd": "enter cwd"}[subject]
    return InternalError(
        f"failed to {failed} {shown(path)}: {error.strerror}", kind, errno=error.errno, subject=subject
    )


def _directory_error(path: bytes) -> OSError | None:
    try:
        with os.scandir(path):
            return None
    except OSError as error:
        return error
