"""Lets the server start processes, of which no event is missed and none is left behind unseen."""

from __future__ import annotations

import contextlib
import functools

from execsrv.client.channel import Channel, Result
from execsrv.client.errors import ClosedError, ExecServerError, ServerError
from execsrv.client.pacing import Pacer
from execsrv.client.process_state import ProcessState
from execsrv.client.router import Router
from execsrv.protocol.processes import ProcessStartParams
from execsrv.wire import to_wire

#: How long it may take to kill a process whose start nobody waits for any more, in seconds.
UNSEEN_SECONDS = 1.0


class Launcher:
    """Starts processes over ``channel`` and enters them into ``router``."""

    def __init__(self, channel: Channel, router: Router) -> None:
        self._channel = channel
        self._router = router

    def new_pacer(self) -> Pacer:
        """What acknowledges the output of one process."""
        return Pacer(functools.partial(_acknowledge, self._channel))

    def launch(self, params: ProcessStartParams, state: ProcessState, timeout: float | None) -> str:
        """Start a process, within ``timeout`` seconds; return its id, which is the server's to choose.

        Raises ServerError, CallTimeout (should it start after all, it is killed), ClosedError, and ValueError when
        the id is in use.
        """
        wanted, router = params.process_id, self._router

        def use_id_of(result: Result) -> None:
            router.rename(wanted, str(result.get("processId", wanted)))

        router.add(wanted, state)
        try:
            result = self._channel.request("process/start", to_wire(params), timeout, use_id_of)
        except BaseException as error:
            router.remove(wanted)
            if not isinstance(error, ServerError | ClosedError):
                self._terminate_unseen(wanted)
            raise
        return str(result.get("processId", wanted))

    def _terminate_unseen(self, process_id: str) -> None:
        """End a process whose start nobody waited for; its answer is of no interest."""
        with contextlib.suppress(ExecServerError):
            self._channel.request("process/terminate", {"processId": process_id}, UNSEEN_SECONDS)


def _acknowledge(channel: Channel, process_id: str, seq: int) -> None:
    channel.notify("process/ack", {"processId": process_id, "seq": seq})
