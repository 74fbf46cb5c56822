"""What can go wrong for a user of the client.

    ExecServerError
    ├── SpawnError          the local server can't be started, or ends before it answers
    ├── ConnectError        there is no websocket connection to the URL
    │   └── ConnectTimeout  ... in time (also a TimeoutError)
    ├── InitializeTimeout   the server did not answer the handshake in time (also a TimeoutError)
    ├── CallTimeout         ... nor another request (also a TimeoutError)
    ├── ClosedError         the connection is over: every wait ends with this one
    │   ├── JsonError       ... because the server sent what is not JSON
    │   └── ProtocolError   ... because the server sent what a server must not send
    ├── ServerError         the server refused a request, or failed at it
    │   ├── StartNotFound   ... since a program or its directory is not there (also a FileNotFoundError)
    │   └── StartForbidden  ... or may not be used (also a PermissionError)
    ├── UnsupportedError    the server does not offer what a call needs
    ├── OutputLost          more output waited for its reader than is kept
    └── TimeoutExpired      a process did not end in time (also a subprocess.TimeoutExpired)

``client.fs`` raises OSErrors such as FileNotFoundError, with the ServerError as their cause. ``run(check=True)``
raises subprocess.CalledProcessError.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Any, Self


class ExecServerError(Exception):
    """The root of the client's own errors."""


class SpawnError(ExecServerError):
    """The local server ``command`` can't be started, or has ended before it answered."""

    def __init__(self, command: Sequence[str], reason: str) -> None:
        super().__init__(f"can't start the exec server {' '.join(command)}: {reason}")
        self.command = list(command)


class ConnectError(ExecServerError):
    """There is no connection to ``url``."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"can't connect to {url}: {reason}")
        self.url = url


class ConnectTimeout(ConnectError, TimeoutError):
    """Connecting to ``url`` took longer than ``timeout`` seconds."""

    def __init__(self, url: str, timeout: float) -> None:
        super().__init__(url, f"no connection within {timeout:g} s")
        self.timeout = timeout


class InitializeTimeout(ExecServerError, TimeoutError):
    """The server did not answer ``initialize`` within ``timeout`` seconds."""

    def __init__(self, timeout: float) -> None:
        super().__init__(f"no answer to initialize within {timeout:g} s")
        self.timeout = timeout


class CallTimeout(ExecServerError, TimeoutError):
    """The server did not answer ``method`` within ``timeout`` seconds. It may still do what was asked."""

    def __init__(self, method: str, timeout: float) -> None:
        super().__init__(f"no answer to {method} within {timeout:g} s")
        self.method = method
        self.timeout = timeout


class ClosedError(ExecServerError):
    """The connection is over; ``reason`` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"exec-server transport closed: {reason}")
        self.reason = reason

    def again(self) -> Self:
        """A copy for one more thread to raise: a traceback belongs to one."""
        return type(self)(self.reason)


class JsonError(ClosedError):
    """The server sent something that is not JSON, which ended the connection."""


class ProtocolError(ClosedError):
    """The server sent something that a server must not send, for instance a request, which ended the connection."""


class ServerError(ExecServerError):
    """The server answered with an error: ``code``, ``message``, ``kind`` ("" if not told) and the whole ``data``."""

    def __init__(self, code: int, message: str, kind: str = "", data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.kind = kind
        self.data = data

    @staticmethod
    def from_wire(error: Any) -> ServerError:
        """The exception for the ``error`` member of a response, whatever a server put there."""
        if not isinstance(error, dict):
            return ServerError(0, str(error))
        data = error.get("data")
        kind = str(data.get("kind") or "") if isinstance(data, dict) else ""
        made_of = {"spawnNotFound": StartNotFound, "spawnPermissionDenied": StartForbidden}.get(kind, ServerError)
        return made_of(error.get("code", 0), str(error.get("message", "")), kind, data)


class StartNotFound(ServerError, FileNotFoundError):
    """The program that was to be started, or its directory, is not there."""


class StartForbidden(ServerError, PermissionError):
    """The program that was to be started can't be executed, or its directory not entered."""


class UnsupportedError(ExecServerError):
    """The server does not offer what a call needs, and would ignore that it was asked for."""


class OutputLost(ExecServerError):
    """Nobody took the output for so long that what came here was given up; what comes after is not lost."""

    def __init__(self) -> None:
        super().__init__("output was given up because too much of it waited for its reader")


class TimeoutExpired(ExecServerError, subprocess.TimeoutExpired):
    """A process has not ended in time: ``cmd``, ``timeout``, and the ``output`` and ``stderr`` until then."""
