"""What comes from the server unasked: the events that subscribers and receivers get.

The events of processes are the classes of ``execsrv.protocol``; two more concern the connection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from execsrv.client.errors import ClosedError, ProtocolError, ServerError
from execsrv.protocol import events
from execsrv.wire import from_wire


@dataclass(frozen=True, slots=True)
class ServerFault:
    """The server reports an error that belongs to no request."""

    kind: ClassVar[str] = "error"
    error: ServerError


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection was lost; no event follows."""

    kind: ClassVar[str] = "disconnected"
    error: ClosedError


Event: TypeAlias = events.Event | ServerFault | Disconnected

ProcessEvent: TypeAlias = (
    events.ProcessStarted | events.ProcessOutput | events.ProcessExited | events.ProcessClosed
)

_CLASSES: dict[str, type[events.Event]] = {
    cls.method: cls
    for cls in (
        events.ProcessStarted,
        events.ProcessOutput,
        events.ProcessExited,
        events.ProcessClosed,
        events.CommandOutputDelta,
        events.CommandExited,
    )
}

#: What the first servers of this kind do not tell: they neither count events nor say why a process ended.
_UNTOLD = {"seq": 0, "reason": "exited"}


def parse_notification(method: str, params: Any) -> Event | None:
    """The event that a notification tells, None for one that is not known. Raises ProtocolError for bad params."""
    cls = _CLASSES.get(method)
    if cls is None:
        return None
    try:
        return from_wire(cls, {**_UNTOLD, **params})
    except (TypeError, ValueError, AttributeError) as error:
        raise ProtocolError(f"bad params of {method}: {error}") from error


def kind_of(event: Event) -> str | None:
    """The event's kind; those of the first-cut methods have none."""
    return getattr(event, "kind", None)
