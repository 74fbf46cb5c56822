"""Brings what a channel reports to the processes and subscribers that it concerns."""

from __future__ import annotations

from execsrv.client.errors import ClosedError
from execsrv.client.events import EventBus
from execsrv.client.notifications import Event
from execsrv.client.process_state import ProcessState
from execsrv.protocol.events import ProcessClosed, ProcessExited, ProcessOutput, ProcessStarted


class Router:
    """The table of a client's processes, and its bus."""

    def __init__(self) -> None:
        self.processes: dict[str, ProcessState] = {}
        self.bus = EventBus(self.processes)
        self.leaving = False

    def add(self, process_id: str, state: ProcessState) -> None:
        """Enter a process before it is started. Raises ValueError when the id is taken."""
        if self.processes.setdefault(process_id, state) is not state:
            raise ValueError(f"there is a process {process_id} already")

    def rename(self, old: str, new: str) -> None:
        """The server has given a process another id."""
        if new != old:
            self.processes[new] = self.processes.pop(old)

    def remove(self, process_id: str) -> None:
        """Forget a process. Twice is harmless."""
        self.processes.pop(process_id, None)

    def route(self, event: Event) -> None:
        """Deliver ``event``. Never waits."""
        takers = self.bus.takers(event)
        match event:
            case ProcessStarted() | ProcessOutput() | ProcessExited() | ProcessClosed():
                state = self.processes.get(event.process_id)
                if state:
                    state.apply(event, takers)
        for mailbox in takers:
            mailbox.put(event)
        if isinstance(event, ProcessClosed):
            self.remove(event.process_id)

    def end(self, failure: ClosedError) -> None:
        """The connection is over."""
        for state in list(self.processes.values()):
            state.fail(failure)
        self.bus.end(None if self.leaving else failure)
