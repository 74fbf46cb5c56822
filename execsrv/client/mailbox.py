"""Events between the thread that reads them and one that takes them."""

from __future__ import annotations

import threading

from execsrv.client.deadline import Deadline
from execsrv.client.lifetime import Changed
from execsrv.client.notifications import Event, size_of
from execsrv.client.spool import Spool


class Mailbox:
    """A queue of events for one taker (see ``pacing``). ``put`` never waits; what is too much goes to disk.

    thread: the one that last took something; at first the one that is expected to.
    """

    def __init__(self, thread: int | None = None) -> None:
        self.thread = thread
        self._changed = Changed()
        self._events: Spool[Event] = Spool()
        self._last: Event | None = None
        self._ended = False

    def put(self, event: Event) -> None:
        """Append ``event``, unless the end was told before."""
        with self._changed:
            if not self._ended:
                self._events.put(event, size_of(event))
                self._changed.notify_all()

    def end(self, last: Event | None = None) -> None:
        """After what is there, and ``last``, comes nothing more."""
        with self._changed:
            if not self._ended:
                self._ended = True
                self._last = last
                self._changed.notify_all()

    def wait(self, deadline: Deadline = Deadline(None)) -> bool:
        """Wait until there is an event or the end; False when there is neither in time."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._events) or self._ended, deadline.remaining())

    def take(self, deadline: Deadline) -> Event | None:
        """Wait for the next event; None at the end.

        Raises TimeoutError when nothing comes in time, and OutputLost (once) where events had to be given up.
        """
        with self._changed:
            self.thread = threading.get_ident()
            if not self.wait(deadline):
                raise TimeoutError("no event in time")
            if self._events:
                return self._events.take()
            last, self._last = self._last, None
            return last

    def close(self) -> None:
        """End and forget what is there."""
        with self._changed:
            self._ended = True
            self._last = None
            self._events.close()
            self._changed.notify_all()
