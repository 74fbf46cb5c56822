"""A session as an agent has it: the tools over the backends that its settings choose."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from execsrv.session import (
    SessionConfig,
    SessionExecutionBackends,
    Toolbox,
    ToolResult,
    UnifiedExecManager,
    session_execution_backends,
)


@dataclass(frozen=True)
class Agent:
    """Who calls the tools. cwd: the session's name of the directory in which it works."""

    config: SessionConfig
    cwd: str
    backends: SessionExecutionBackends
    manager: UnifiedExecManager

    def call(self, tool: str, **arguments: Any) -> ToolResult:
        """Call a tool as a model does."""
        return Toolbox(self.backends.environment, self.manager).call(tool, arguments)

    def start(self, cmd: str, **arguments: Any) -> int:
        """Run a command that goes on, on a terminal; the session id that the answer names."""
        answer = self.call("exec_command", cmd=cmd, login=False, tty=True, yield_time_ms=250, **arguments)
        return session_id_of(answer.text)

    def finish(self, session_id: int, chars: str) -> ToolResult:
        """Give a command the input with which it ends; the answer comes with its end."""
        return self.call("write_stdin", session_id=session_id, chars=chars, yield_time_ms=30_000)


@contextlib.contextmanager
def open_agent(config: SessionConfig, cwd: str) -> Iterator[Agent]:
    """A session from its beginning to its end."""
    with session_execution_backends(config) as backends:
        with UnifiedExecManager(backends.unified_exec_session_factory, cwd) as manager:
            yield Agent(config, cwd, backends, manager)


def session_id_of(text: str) -> int:
    """The session id in the answer of a command that goes on."""
    found = re.search(r"^Process running with session ID (\d+)$", text, re.MULTILINE)
    assert found, text
    return int(found[1])
