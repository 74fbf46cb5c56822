"""execsrv: start and control processes and files on a machine for a client somewhere else.

The public names of ``execsrv.client`` are here, too. The server is the command ``execsrv``.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from execsrv.client import *

__all__ = [
    "CallTimeout",
    "ClosedError",
    "ConnectError",
    "ConnectTimeout",
    "DirectoryEntry",
    "Disconnected",
    "EnvPolicy",
    "EventBus",
    "EventReceiver",
    "ExecServerClient",
    "ExecServerError",
    "FileSystem",
    "InitializeTimeout",
    "JsonError",
    "Metadata",
    "OutputLost",
    "Process",
    "ProcessClosed",
    "ProcessDescription",
    "ProcessExited",
    "ProcessOutput",
    "ProcessSnapshotResult",
    "ProcessStarted",
    "ProtocolError",
    "ServerError",
    "ServerFault",
    "ServerInfo",
    "Size",
    "SpawnError",
    "StartForbidden",
    "StartNotFound",
    "Subscription",
    "TextOutput",
    "TimeoutExpired",
    "UnsupportedError",
    "spawn_local_exec_server",
]


def __getattr__(name: str) -> Any:
    """A name of the client, which is imported now: the server starts without it."""
    if name in __all__:
        return getattr(importlib.import_module("execsrv.client"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
