"""How a process and its descendants are ended: they are asked to by SIGTERM, and made to by SIGKILL."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Collection

import gevent

from execsrv.server.processes.descriptor import Descriptor
from execsrv.server.processes.proc_stat import Identity
from execsrv.server.processes.sessions import kill_sessions, open_survivor, signal_session

#: Seconds between two looks for survivors while there is no descriptor to wait for one of them.
LOOK_S = 0.05


class Ending:
    """The end of the session that ``leader`` leads. Call nothing but ``cancel`` once the leader is reaped.

    on_kill: called before SIGKILL is sent. escaped: descendants outside the session, found when it was asked to end.
    """

    def __init__(self, leader: int, on_kill: Callable[[], None]) -> None:
        self.escaped: Collection[Identity] = ()
        self._leader = leader
        self._on_kill = on_kill
        self._kill_at = math.inf
        self._killer: gevent.Greenlet[[], None] | None = None

    def ask(self, grace: float) -> None:
        """Send SIGTERM, and SIGKILL ``grace`` seconds later if that is not due earlier anyway."""
        # One that is stopped could not end by itself.
        self.escaped = signal_session(self._leader, self.escaped, signal.SIGTERM, signal.SIGCONT)
        due = time.monotonic() + grace
        if due < self._kill_at:
            self.cancel()
            self._kill_at = due
            self._killer = gevent.spawn_later(grace, self.force)

    def force(self) -> None:
        """Send SIGKILL."""
        self.expect_kill()
        kill_sessions([self._leader], self.escaped)

    def expect_kill(self) -> None:
        """SIGKILL is sent next: nobody has any time left."""
        self._kill_at = -math.inf
        self._on_kill()

    def wait_for_survivors(self) -> None:
        """When it was asked to end, wait for those who have not: until they have, or are killed."""
        while time.monotonic() < self._kill_at < math.inf and self._waited_for_one():
            pass
        if -math.inf < self._kill_at <= time.monotonic():  # their time is up, and we look before the killer does
            self.force()

    def _waited_for_one(self) -> bool:
        """Wait for the end of some survivor, or until the time is up; was there one?"""
        try:
            pidfd = open_survivor(self._leader, self.escaped)
        except OSError:
            gevent.sleep(LOOK_S)
            return True
        if pidfd is None:
            return False
        survivor = Descriptor(pidfd)
        try:
            gevent.with_timeout(self._kill_at - time.monotonic(), survivor.wait_readable, timeout_value=None)
        finally:
            survivor.close()
        return True

    def cancel(self) -> None:
        """Send no SIGKILL by ourselves any more."""
        self._kill_at = math.inf
        if self._killer:
            self._killer.kill(block=False)
