"""What can go wrong with a command; the words are meant for the model, too.

    UnifiedExecError
    ├── MissingCommand       there is nothing to run
    ├── StartFailed          the command can't be started
    │   └── SandboxUnsupported   ... in the sandbox that it needs
    ├── UnknownSession       no process has this session id, or not any more
    ├── StdinClosed          the process takes no input
    └── SessionLost          the connection to the process's server is over, and nobody can know how it ends
"""

from __future__ import annotations


class UnifiedExecError(Exception):
    """The root of these errors."""


class MissingCommand(UnifiedExecError):
    """There is nothing to run."""

    def __init__(self) -> None:
        super().__init__("the command to run is missing")


class StartFailed(UnifiedExecError):
    """The command can't be started; ``reason`` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"failed to start the command: {reason}")
        self.reason = reason


class SandboxUnsupported(StartFailed):
    """The command must run in ``sandbox``, which nobody here can make."""

    def __init__(self, sandbox: str) -> None:
        super().__init__(f"it needs the sandbox {sandbox}, which is not supported")
        self.sandbox = sandbox


class UnknownSession(UnifiedExecError):
    """No process has ``session_id``, or its end has been reported."""

    def __init__(self, session_id: int) -> None:
        super().__init__(f"unknown session id {session_id}")
        self.session_id = session_id


class StdinClosed(UnifiedExecError):
    """The process takes no input: it has no terminal, or has ended."""

    def __init__(self) -> None:
        super().__init__("stdin is closed; only a running command that was started with tty=true takes input")


class SessionLost(UnifiedExecError):
    """The connection that the process belonged to is over; ``reason`` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the connection to the command was lost: {reason}")
        self.reason = reason
