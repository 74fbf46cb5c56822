"""What to run: the words of a start request, checked and in bytes."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from execsrv.errors import InvalidParams, InvalidRequest
from execsrv.protocol.processes import EnvPolicy, Size
from execsrv.server.paths import native_path
from execsrv.server.processes.environment import child_environment

#: The protocol's words for signals; the system's own names are taken too.
SIGNAL_WORDS = {
    "interrupt": signal.SIGINT,
    "terminate": signal.SIGTERM,
    "kill": signal.SIGKILL,
    "hangup": signal.SIGHUP,
    "quit": signal.SIGQUIT,
    "user1": signal.SIGUSR1,
    "user2": signal.SIGUSR2,
    "stop": signal.SIGSTOP,
    "continue": signal.SIGCONT,
}


@dataclass(frozen=True, slots=True)
class Command:
    """A program to start: bytes as execve(2) takes them.

    program: name or path, looked up in the child's own PATH and directory.
    argv: what the program sees, ``argv[0]`` included.
    size: the terminal's size; None for pipes.
    pipe_stdin: whether a pipe is the child's stdin (on a terminal there is always an input).
    """

    program: bytes
    argv: tuple[bytes, ...]
    cwd: bytes
    env: dict[bytes, bytes]
    size: Size | None
    pipe_stdin: bool

    @property
    def has_stdin(self) -> bool:
        """Can the client write to it?"""
        return self.pipe_stdin or self.size is not None


def make_command(
    argv: list[str],
    cwd: str,
    env: dict[str, str],
    size: Size | None,
    arg0: str | None = None,
    pipe_stdin: bool = False,
    env_policy: EnvPolicy | None = None,
) -> Command:
    """Check the words of a start request.

    Raises InvalidParams naming the entry that no process can be started with.
    """
    if not argv:
        raise InvalidParams("argv must not be empty")
    words = [_word(word, f"params.argv[{index}]") for index, word in enumerate(argv)]
    given_arg0 = words[0] if arg0 is None else _word(arg0, "params.arg0")
    directory = native_path(cwd, "cwd")
    _check_variables(env, "params.env")
    if env_policy:
        _check_variables(env_policy.set, "params.envPolicy.set")
    environment = child_environment(env_policy, env, os.environ)
    return Command(words[0], (given_arg0, *words[1:]), directory, environment, size, pipe_stdin)


def signal_number(word: str) -> int:
    """The signal that a word, or a name like ``SIGUSR1``, means. Raises InvalidParams."""
    if word in SIGNAL_WORDS:
        return SIGNAL_WORDS[word]
    if word in signal.Signals.__members__:
        return signal.Signals[word]
    raise InvalidParams(f"params.signal: {word!r} is no signal")


def refuse_sandbox(sandbox: Mapping[str, Any] | None) -> None:
    """Raise InvalidRequest for a sandbox that would have to be enforced: this server has none."""
    if sandbox is not None and sandbox["mode"] != "none":
        raise InvalidRequest(
            f"sandbox mode `{sandbox['mode']}` is not supported by exec-server yet", kind="sandboxUnsupported"
        )


def _check_variables(variables: Mapping[str, str], field: str) -> None:
    # All together, since there may be hundreds; one by one only to name the one at fault.
    everything = "".join(chain.from_iterable(variables.items()))
    if "" not in variables and "=" not in "".join(variables) and not _fault(everything):
        return
    for name, value in variables.items():
        fault = _fault(name) or _fault(value)
        if not fault and (not name or "=" in name):
            fault = "the name of a variable is not empty and holds no '='"
        if fault:
            raise InvalidParams(f"{field}[{name!r}]: {fault}")


def _word(text: str, field: str) -> bytes:
    """The UTF-8 bytes of a string that fits into execve's NUL-terminated arrays."""
    fault = _fault(text)
    if fault:
        raise InvalidParams(f"{field}: {fault}")
    return text.encode()


def _fault(text: str) -> str | None:
    """Why a string does not fit into execve's arrays; None when it does."""
    if "\0" in text:
        return "holds a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "holds a lone surrogate"
    return None
