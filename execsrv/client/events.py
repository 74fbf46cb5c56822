"""The event bus: events of processes and of the connection for callbacks and for receivers."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Self, TypeAlias

from execsrv.client.deadline import Deadline
from execsrv.client.errors import ClosedError, OutputLost
from execsrv.client.lifetime import when_dropped
from execsrv.client.mailbox import Mailbox
from execsrv.client.notifications import Announcement, Disconnected, Event, kind_of
from execsrv.client.process_state import ProcessState
from execsrv.protocol.events import ProcessOutput

logger = logging.getLogger(__name__)

Callback: TypeAlias = Callable[[Event], object]


class EventFilter:
    """Chooses events by process and by kind; None takes all.

    The kinds are ``started``, ``output``, ``exited`` and ``closed``, of processes, and ``error`` and
    ``disconnected``, of the connection; layers above the client have their own.
    """

    def __init__(self, process_id: str | None, kind: str | None) -> None:
        self._process_id = process_id
        self._kind = kind

    def matches(self, event: Event) -> bool:
        """Is ``event`` wanted?"""
        if self._kind is not None and self._kind != kind_of(event):
            return False
        return self._process_id is None or self._process_id == getattr(event, "process_id", None)


class Subscription:
    """A callback on the bus. It ends with ``close``, by calling it, or where its ``with`` block is left."""

    def __init__(self, bus: EventBus, callback: Callback, wanted: EventFilter) -> None:
        self._bus = bus
        self._callback = callback
        self._wanted = wanted

    def close(self) -> None:
        """The callback is not called any more, save where that happens right now. Twice is harmless."""
        self._bus.unsubscribe(self)

    __call__ = close

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def matches(self, event: Event) -> bool:
        """Is ``event`` one for this callback?"""
        return self._wanted.matches(event)

    def deliver(self, event: Event) -> None:
        """Call the callback; what it raises is logged."""
        try:
            self._callback(event)
        except Exception:  # whatever a user's code raises must not end the bus
            logger.exception("a callback failed with a %s event", kind_of(event))


class EventBus:
    """Hands events to callbacks, in order and on one thread, and to the mailboxes of receivers.

    A callback may call any method of the client and wait for its answer. Output counts as taken when those who want
    it have it behind them: a callback that is slow, or a receiver that nobody reads, makes that process wait.
    """

    def __init__(self, processes: Mapping[str, ProcessState]) -> None:
        self._processes = processes
        self._lock = threading.Lock()
        self._subscriptions: tuple[Subscription, ...] = ()
        self._receivers: dict[Mailbox, EventFilter] = {}
        self._inbox = Mailbox()
        self._dispatcher: threading.Thread | None = None
        self._ended = False
        self.failure: ClosedError | None = None

    def subscribe(self, callback: Callback, process_id: str | None = None, kind: str | None = None) -> Subscription:
        """Call ``callback(event)`` with every event that matches, from now on."""
        subscription = Subscription(self, callback, EventFilter(process_id, kind))
        with self._lock:
            self._subscriptions += (subscription,)
            if self._dispatcher is None:
                self._start_dispatcher()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Remove ``subscription``."""
        with self._lock:
            self._subscriptions = tuple(other for other in self._subscriptions if other is not subscription)

    def open_mailbox(self, wanted: EventFilter) -> Mailbox:
        """A mailbox that gets every event that matches, from now on."""
        mailbox = Mailbox(threading.get_ident())
        with self._lock:
            self._receivers = {**self._receivers, mailbox: wanted}
            if self._ended:
                mailbox.end()
        return mailbox

    def close_mailbox(self, mailbox: Mailbox) -> None:
        """Hold nothing back for ``mailbox`` any more. Twice is harmless."""
        with self._lock:
            self._receivers = {other: wanted for other, wanted in self._receivers.items() if other is not mailbox}
        mailbox.close()
        self._release(mailbox)

    def takers(self, event: Event) -> list[Mailbox]:
        """The mailboxes that ``event`` belongs into."""
        takers = [mailbox for mailbox, wanted in self._receivers.items() if wanted.matches(event)]
        if any(subscription.matches(event) for subscription in self._subscriptions):
            takers.append(self._inbox)
        return takers

    def publish(self, event: Announcement) -> None:
        """Deliver an event of a layer above the client to all who want it. Never waits; any thread may call it.

        Nothing is delivered after the end. A slow taker holds nothing back: what is too much for its spool is lost.
        """
        for mailbox in self.takers(event):
            mailbox.put(event)

    def take(self, mailbox: Mailbox, deadline: Deadline) -> Event | None:
        """The next event of ``mailbox``, which is in the caller's hands until ``settle``. See Mailbox.take."""
        try:
            return mailbox.take(deadline)
        except OutputLost:
            self._release(mailbox)
            raise

    def settle(self, mailbox: Mailbox, event: Event) -> None:
        """The taker of ``mailbox`` has ``event`` behind it."""
        if isinstance(event, ProcessOutput):
            process = self._processes.get(event.process_id)
            if process:
                process.taken(mailbox, event)

    def end(self, failure: ClosedError | None) -> None:
        """Nothing more will come, because of ``failure``, or because the client was closed."""
        last = Disconnected(failure) if failure else None
        with self._lock:
            self._ended = True
            self.failure = failure
            receivers = self._receivers
        self._inbox.end(last)
        for mailbox, wanted in receivers.items():
            mailbox.end(last if last and wanted.matches(last) else None)

    def join(self, timeout: float) -> None:
        """After the end: wait until the callbacks have had all that came before."""
        if self._dispatcher and self._dispatcher is not threading.current_thread():
            self._dispatcher.join(timeout)

    def deliver_next(self) -> bool:
        """Call everyone who wants the event that is there; False when there will be no more."""
        try:
            event = self.take(self._inbox, Deadline(0))
        except OutputLost as error:
            logger.error("callbacks were too slow: %s", error)
            return True
        if event is None:
            return False
        for subscription in self._subscriptions:
            if subscription in self._subscriptions and subscription.matches(event):
                subscription.deliver(event)
        self.settle(self._inbox, event)
        return True

    def _release(self, mailbox: Mailbox) -> None:
        for process in list(self._processes.values()):
            process.release(mailbox)

    def _start_dispatcher(self) -> None:
        arguments = (self._inbox, weakref.ref(self))
        self._dispatcher = threading.Thread(target=_dispatch, args=arguments, name="execsrv-events", daemon=True)
        self._dispatcher.start()
        when_dropped(self, self._inbox.close)


def _dispatch(inbox: Mailbox, bus_reference: weakref.ref[EventBus]) -> None:
    """Deliver what comes into ``inbox``. While it waits, it does not keep the bus, and so the client, alive."""
    inbox.wait()
    while (bus := bus_reference()) and bus.deliver_next():
        del bus
        inbox.wait()
