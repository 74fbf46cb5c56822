"""Flow control of one process: the server sends a window of output, and more as this side has taken it.

Whoever takes output is a taker: the mailbox of a subscriber or a receiver, or the process's own handle. The slowest
taker that an output waits for decides how much is acknowledged. A taker whose own thread waits for the process is
left out as long as it waits, or it would wait for itself; what it has not taken piles up in its spool.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from execsrv.protocol.events import ProcessOutput

#: Output of one process that the server may send beyond what was taken: with a round trip of 50 ms, 10 MiB/s. More
#: gains next to nothing on a near server, and is held by every handle that nobody reads.
WINDOW_BYTES = 512 * 1024

#: What an acknowledgement must open of the window to be worth a message while there is more to take.
ACK_BYTES = WINDOW_BYTES // 4


class Taker(Protocol):
    """One who takes output: ``thread`` is the one that does it, as far as is known."""

    thread: int | None


class _Mark(NamedTuple):
    """A place in the output: everything up to ``seq``, ``total`` bytes from the start."""

    seq: int
    total: int

    def after(self, output: ProcessOutput) -> _Mark:
        """The place behind ``output``."""
        return _Mark(output.seq, self.total + len(output.chunk))


@dataclass
class _Tally:
    """What is meant for one taker, and what it has taken."""

    taken: _Mark
    arrived_seq: int


class Pacer:
    """Keeps the tallies of one process and calls ``acknowledge(process_id, seq)``, which must not wait."""

    def __init__(self, acknowledge: Callable[[str, int], None]) -> None:
        self._acknowledge = acknowledge
        self._process_id = ""
        self._lock = threading.Lock()
        self._tallies: dict[Taker, _Tally] = {}
        self._waiting: list[Taker | int] = []
        self._arrived = self._acknowledged = _Mark(0, 0)

    def arrived(self, output: ProcessOutput, takers: Iterable[Taker]) -> None:
        """``output`` is there, and each of ``takers`` will take it."""
        with self._lock:
            self._process_id = output.process_id
            before, self._arrived = self._arrived, self._arrived.after(output)
            for taker in takers:
                tally = self._tallies.setdefault(taker, _Tally(before, before.seq))
                if tally.taken.seq >= tally.arrived_seq:
                    tally.taken = before  # it may have been left out for a while
                tally.arrived_seq = output.seq
            self._update()

    def taken(self, taker: Taker, output: ProcessOutput) -> None:
        """``taker`` has ``output`` behind it."""
        with self._lock:
            tally = self._tallies.get(taker)
            if tally and output.seq > tally.taken.seq:
                tally.taken = tally.taken.after(output)
                self._update()

    def release(self, taker: Taker) -> None:
        """``taker`` takes nothing more of what has arrived."""
        with self._lock:
            self._tallies.pop(taker, None)
            self._update()

    @contextlib.contextmanager
    def waiting(self, *takers: Taker) -> Iterator[None]:
        """The calling thread waits for the process: neither its own takers nor ``takers`` hold output back."""
        excused: list[Taker | int] = [threading.get_ident(), *takers]
        with self._lock:
            self._waiting += excused
            self._update()
        try:
            yield
        finally:
            with self._lock:
                for entry in excused:
                    self._waiting.remove(entry)

    def _update(self) -> None:
        """Acknowledge what has been taken, if that is everything or worth a message. The lock is held."""
        waited_for = [tally.taken for taker, tally in self._tallies.items() if self._holds(taker, tally)]
        level = min(waited_for, default=self._arrived)
        opened = level.total - self._acknowledged.total
        if opened >= ACK_BYTES or (opened > 0 and not waited_for):
            self._acknowledged = level
            self._acknowledge(self._process_id, level.seq)

    def _holds(self, taker: Taker, tally: _Tally) -> bool:
        behind = tally.taken.seq < tally.arrived_seq
        return behind and taker not in self._waiting and taker.thread not in self._waiting
