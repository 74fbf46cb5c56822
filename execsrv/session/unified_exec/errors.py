"""What can go wrong with a command; the words are for the model, too.

    UnifiedExecError
    ├── MissingCommand           there is nothing to run
    ├── StartFailed              the command can't be started
    │   ├── SandboxUnsupported   ... in the sandbox that it needs
    │   └── ProcessIdInUse       ... under the id that was chosen for it
    ├── UnknownSession           no command has this session id, or not any more
    ├── WriteFailed              the command did not get its input
    │   └── StdinClosed          ... because it has none
    └── ConnectionLost           the connection to where the command runs is over, so nobody knows how it ends
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
    """The command must not run without ``sandbox``, which nobody here can make."""

    def __init__(self, sandbox: str) -> None:
        super().__init__(f"it needs the sandbox {sandbox}, which is not supported")
        self.sandbox = sandbox


class ProcessIdInUse(StartFailed):
    """Where the command is to run, another process has its id."""

    def __init__(self, process_id: str) -> None:
        super().__init__(f"there is a process {process_id} already")
        self.process_id = process_id


class UnknownSession(UnifiedExecError):
    """No command has ``session_id``, or its end was reported."""

    def __init__(self, session_id: int) -> None:
        super().__init__(f"unknown session id {session_id}")
        self.session_id = session_id


class WriteFailed(UnifiedExecError):
    """The command did not get its input; ``reason`` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"failed to write to the command: {reason}")
        self.reason = reason


class StdinClosed(WriteFailed):
    """The command has no input."""

    def __init__(self) -> None:
        super().__init__("its stdin is closed; start it with tty=true to give it input")


class ConnectionLost(UnifiedExecError):
    """The connection to where the command runs is over; ``reason`` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the connection to the command was lost: {reason}")
        self.reason = reason
