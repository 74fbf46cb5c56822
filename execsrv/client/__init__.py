"""The blocking client: plain threads and sockets, no gevent and nothing of the server.

Its public names are here, and in ``execsrv`` too.
"""

from execsrv.client.client import ExecServerClient
from execsrv.client.errors import (
    CallTimeout,
    ClosedError,
    ConnectError,
    ConnectTimeout,
    ExecServerError,
    InitializeTimeout,
    JsonError,
    OutputLost,
    ProtocolError,
    ServerError,
    SpawnError,
    StartForbidden,
    StartNotFound,
    TimeoutExpired,
    UnsupportedError,
)
from execsrv.client.events import EventBus, Subscription
from execsrv.client.filesystem import FileSystem
from execsrv.client.local import spawn_local_exec_server
from execsrv.client.notifications import Disconnected, ServerFault
from execsrv.client.process import Process
from execsrv.client.receiver import EventReceiver
from execsrv.client.server_info import ServerInfo
from execsrv.client.text import TextOutput
from execsrv.protocol.events import ProcessClosed, ProcessExited, ProcessOutput, ProcessStarted
from execsrv.protocol.files import DirectoryEntry, Metadata
from execsrv.protocol.processes import EnvPolicy, ProcessDescription, ProcessSnapshotResult, Size

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
