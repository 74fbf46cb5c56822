"""Events that are pulled rather than pushed."""

from __future__ import annotations

from typing import Self

from execsrv.client.deadline import Deadline
from execsrv.client.errors import ClosedError
from execsrv.client.events import EventBus, EventFilter
from execsrv.client.lifetime import when_dropped
from execsrv.client.notifications import Event


class EventReceiver:
    """An iterator over events as they come, made by ``client.event_receiver``.

    The loop ends when the client is closed; it ends with ClosedError when the connection was lost, and with
    TimeoutError when no event came within ``timeout`` seconds; after the latter it can be taken up again. Output
    that was received but not pulled holds its process back, so close or drop a receiver that is not needed.
    ``client`` is kept alive.
    """

    def __init__(
        self, client: object, bus: EventBus, timeout: float | None, process_id: str | None, kind: str | None
    ) -> None:
        self._client = client
        self._bus = bus
        self._timeout = timeout
        self._mailbox = bus.open_mailbox(EventFilter(process_id, kind))
        when_dropped(self, bus.close_mailbox, self._mailbox)

    def get(self, timeout: float | None = None) -> Event:
        """The next event, within ``timeout`` seconds (None: whenever it comes).

        Raises TimeoutError, ClosedError at the end, and OutputLost (once) where events had to be given up.
        """
        event = self._pull(timeout)
        if event is None:
            raise self._bus.failure.again() if self._bus.failure else ClosedError("closed by this client")
        return event

    def close(self) -> None:
        """Receive nothing more. Twice is harmless."""
        self._bus.close_mailbox(self._mailbox)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        event = self._pull(self._timeout)
        if event is None:
            raise self._bus.failure.again() if self._bus.failure else StopIteration
        return event

    def _pull(self, timeout: float | None) -> Event | None:
        """The next event; None at the end."""
        event = self._bus.take(self._mailbox, Deadline(timeout))
        if event is not None:
            self._bus.settle(self._mailbox, event)
        return event

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
