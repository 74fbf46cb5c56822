"""From a method's name and JSON params to a typed call: look-up, shape, handshake, in this order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from execsrv import schemas
from execsrv.errors import InvalidRequest
from execsrv.protocol import common, files, first_cut, handshake, processes
from execsrv.server.handler import Handler
from execsrv.server.lanes import Call, Lane
from execsrv.wire import from_wire


@dataclass(frozen=True, slots=True)
class Method:
    """One row of the tables below: the params' class, and where below the Handler the method is.

    at_once: where the one is that gives the result when that takes no waiting, else None.
    """

    params: type
    target: str
    lane: Lane
    needs_handshake: bool = True
    at_once: str | None = None


METHODS = {
    "initialize": Method(handshake.InitializeParams, "initialize", Lane.PROMPT, needs_handshake=False),
    "process/start": Method(processes.ProcessStartParams, "processes.start", Lane.OWN),
    "process/read": Method(processes.ProcessReadParams, "processes.read", Lane.OWN),
    "process/write": Method(processes.ProcessWriteParams, "processes.write", Lane.OWN),
    "process/terminate": Method(processes.ProcessTerminateParams, "processes.terminate", Lane.OWN),
    "process/signal": Method(processes.ProcessSignalParams, "processes.signal", Lane.OWN),
    "process/closeStdin": Method(processes.ProcessParams, "processes.close_stdin", Lane.OWN),
    "process/resize": Method(processes.ProcessResizeParams, "processes.resize", Lane.OWN),
    "process/wait": Method(processes.ProcessWaitParams, "processes.wait", Lane.OWN),
    "process/snapshot": Method(processes.ProcessParams, "processes.snapshot", Lane.OWN),
    "process/list": Method(common.Empty, "processes.list", Lane.OWN),
    "command/exec": Method(first_cut.CommandExecParams, "first_cut.exec", Lane.OWN, needs_handshake=False),
    "command/exec/write": Method(processes.ProcessWriteParams, "first_cut.write", Lane.OWN, needs_handshake=False),
    "command/exec/terminate": Method(
        processes.ProcessParams, "first_cut.terminate", Lane.OWN, needs_handshake=False
    ),
    "fs/readFile": Method(files.PathParams, "files.read_file", Lane.FILES, at_once="files.read_file_at_once"),
    "fs/writeFile": Method(files.WriteFileParams, "files.write_file", Lane.FILES),
    "fs/createDirectory": Method(files.CreateDirectoryParams, "files.create_directory", Lane.FILES),
    "fs/getMetadata": Method(
        files.PathParams, "files.get_metadata", Lane.FILES, at_once="files.get_metadata_at_once"
    ),
    "fs/readDirectory": Method(files.PathParams, "files.read_directory", Lane.FILES),
    "fs/remove": Method(files.RemoveParams, "files.remove", Lane.FILES),
    "fs/copy": Method(files.CopyParams, "files.copy", Lane.FILES),
    "fs/open": Method(files.OpenParams, "files.open", Lane.FILES),
    "fs/readBlock": Method(files.ReadBlockParams, "files.read_block", Lane.FILES),
    "fs/writeBlock": Method(files.WriteBlockParams, "files.write_block", Lane.FILES),
    "fs/close": Method(files.CloseParams, "files.close", Lane.FILES),
}

NOTIFICATIONS = {
    "process/ack": Method(processes.ProcessAckParams, "processes.ack", Lane.PROMPT),
}


def bind_request(handler: Handler, name: str, params: Any) -> Call:
    """The call that a request asks for.

    Raises InvalidRequest (unknown method, handshake) or InvalidParams (shape).
    """
    method = METHODS.get(name)
    if method is None:
        raise InvalidRequest(f"unknown method: {name}", kind="unknownMethod")
    return _bind(handler, name, method, params)


def bind_notification(handler: Handler, name: str, params: Any) -> Call:
    """The call that a notification asks for; raises as ``bind_request`` does."""
    if name == "initialized":  # whatever its params are
        return Call(handler.initialized, Lane.PROMPT)
    method = NOTIFICATIONS.get(name)
    if method is None:
        raise InvalidRequest(f"unexpected notification method: {name}", kind="unknownMethod")
    return _bind(handler, name, method, params)


def _bind(handler: Handler, name: str, method: Method, params: Any) -> Call:
    typed: Any = from_wire(method.params, schemas.validate_params(name, params))
    if method.needs_handshake:
        handler.check_ready()
    at_once = partial(attrgetter(method.at_once)(handler), typed) if method.at_once else None
    return Call(partial(attrgetter(method.target)(handler), typed), method.lane, at_once)
