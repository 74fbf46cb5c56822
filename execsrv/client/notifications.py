"""What comes from the server unasked: the events that subscribers and receivers get.

The events of processes are the classes of ``execsrv.protocol``; two more concern the connection. Layers above the
client add theirs.
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


class Announcement:
    """An event of a layer above the client that goes over its bus: ``kind`` and ``process_id`` are what filters see.

    size: bytes of output in it, for the bounds of those who queue it.
    """

    __slots__ = ()
    kind: ClassVar[str]
    process_id: str

    @property
    def size(self) -> int:
        """None, unless a kind of event says otherwise."""
        return 0


Event: TypeAlias = events.Event | ServerFault | Disconnected | Announcement

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


def size_of(event: Event) -> int:
    """How many bytes of output the event holds."""
    if isinstance(event, events.ProcessOutput | events.CommandOutputDelta):
        return len(event.chunk)
    return event.size if isinstance(event, Announcement) else 0


def kind_of(event: Event) -> str | None:
    """The event's kind; those of the first-cut methods have none."""
    return getattr(event, "kind", None)
