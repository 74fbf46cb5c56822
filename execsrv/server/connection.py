"""One peer: reads its messages, runs their calls in their lanes, sends answers and events, and ends it all."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import gevent

from execsrv import jsonrpc
from execsrv.config import ExecServerConfig
from execsrv.errors import InternalError, InvalidRequest, RpcError
from execsrv.protocol.common import ExitReason
from execsrv.protocol.events import CommandOutputDelta, Event, ProcessExited, ProcessOutput, ProcessStarted
from execsrv.server.condition import Condition
from execsrv.server.dispatch import bind_notification, bind_request
from execsrv.server.handler import Handler
from execsrv.server.lanes import Lanes
from execsrv.server.outbox import Outbox
from execsrv.server.workers import Workers
from execsrv.transports import MessageTooLarge, Transport, TransportClosed
from execsrv.wire import to_wire

log = logging.getLogger(__name__)

#: Requests that may be open at one time; above it the connection is not read.
MAX_OPEN_REQUESTS = 4096

#: The longest that an end may take, and the shares of it that killed processes may take to be gone, and that are left
#: for breaking off what still goes on and for sending what waits; open requests have the rest.
END_S, KILL_S, BREAK_OFF_S, FLUSH_S = 4.5, 2.5, 0.5, 1.0

#: Nothing tells of a peer that hangs up while it is not read, so that is looked for, this often.
LOOK_S = 0.5


class Connection:
    """Serves one transport until its end. One greenlet reads (``serve``), each call that waits has its own.

    Whoever has something to send sends it, if that needs no waiting; else the sending greenlet does.
    """

    def __init__(self, transport: Transport, config: ExecServerConfig, workers: Workers) -> None:
        self._transport = transport
        self._config = config
        self._outbox = Outbox()
        self._handler = Handler(config, workers, _OutboxSink(self._outbox, self._flush))
        self._lanes = Lanes(workers.files, self._admit_file_call)
        self._open_requests = 0
        self._open_bytes = 0
        self._answered = Condition()
        self._taking = False  # is a message being taken? what it gives is sent together with what follows
        self._sender: gevent.Greenlet[[], None] | None = None

    def serve(self) -> None:
        """Serve until the peer is gone or ``end`` was called; return when nothing of the connection is left."""
        self._sender = gevent.spawn(self._send)
        try:
            self._read()
        finally:
            self.end("connectionClosed")

    def end(self, reason: ExitReason) -> None:
        """Kill and reap the processes, send what is still to be said, close; bounded in time, twice is harmless."""
        deadline = time.monotonic() + END_S
        self._handler.end_processes(reason, KILL_S)
        if not self._wait_for_answers(deadline - FLUSH_S - BREAK_OFF_S):
            self._handler.break_off()
            self._wait_for_answers(deadline - FLUSH_S)
        self._outbox.close(discard=False)
        if self._sender:
            self._sender.join(max(0.0, deadline - time.monotonic()))
        self._outbox.close(discard=True)
        self._handler.end(reason, KILL_S)  # also the processes that waited for room in the outbox
        self._transport.close()

    def _wait_for_answers(self, deadline: float) -> bool:
        """Wait until no request is open, or none can be answered any more; False when it is too late for that."""
        return self._answered.wait_for(
            lambda: not self._open_requests or self._outbox.is_closed, deadline - time.monotonic()
        )

    # ---- in --------------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        while self._take_next():
            if self._open_requests or self._outbox.has_batch:
                self._flush()  # nobody waits for the next message
                gevent.sleep(0)  # what it started goes first, so that the bounds count it
            self._wait_for_room()

    def _take_next(self) -> bool:
        """Wait for a message and take it; False at the end. Nothing of it is kept here: it can be large."""
        try:
            data = self._transport.receive(before_wait=self._flush)
        except MessageTooLarge:
            limit = self._config.max_message_bytes
            self._refuse(jsonrpc.NO_ID, InvalidRequest(f"the message exceeds {limit} bytes", kind="tooLarge"))
            return True
        if data is not None:
            self._taking = True
            self._take(data)
            self._taking = False
        return data is not None

    def _wait_for_room(self) -> None:
        self._outbox.wait_for_answer_room()
        while self._is_overloaded() and not (self._outbox.is_closed or self._transport.is_hung_up()):
            self._answered.wait(LOOK_S)

    def _is_overloaded(self) -> bool:
        return self._open_requests >= MAX_OPEN_REQUESTS or self._open_bytes > self._config.max_message_bytes

    def _take(self, data: bytes) -> None:
        try:
            message = jsonrpc.parse(data)
            if isinstance(message, jsonrpc.Notification):
                bind_notification(self._handler, message.method, message.params).run()
            elif isinstance(message, jsonrpc.Response):
                kind = "response" if message.outcome == "result" else "error"
                raise InvalidRequest(f"unexpected client {kind} for request id {message.id}")
            else:
                self._take_request(message, len(data))
        except Exception as error:
            self._refuse(jsonrpc.NO_ID, _fault_of(error))

    def _take_request(self, request: jsonrpc.Request, size: int) -> None:
        try:
            call = bind_request(self._handler, request.method, request.params)
        except Exception as error:
            self._refuse(request.id, _fault_of(error))
        else:
            self._open_requests += 1
            self._open_bytes += size
            self._lanes.put(call, partial(self._outcome, request.id), partial(self._answer, size))

    def _admit_file_call(self) -> bool:
        self._outbox.wait_for_answer_room()
        return not self._outbox.is_closed

    def _outcome(self, id: jsonrpc.Id, run: Callable[[], Any]) -> tuple[jsonrpc.Encoded, bool]:
        """Run a call: its answer, and whether that must not overtake the events before it."""
        try:
            result = run()
            answer = jsonrpc.result(id, to_wire(result))
            if answer.size > self._config.max_message_bytes:
                raise InvalidRequest(f"the answer exceeds {self._config.max_message_bytes} bytes", kind="tooLarge")
            return answer, getattr(result, "tells_end", False)
        except Exception as error:
            fault = _fault_of(error)
            return jsonrpc.error(id, fault), fault.tells_end

    # ---- out -------------------------------------------------------------------------------------------------------

    def _answer(self, size: int, outcome: tuple[jsonrpc.Encoded, bool]) -> None:
        self._outbox.put_answer(*outcome)
        self._flush()
        self._open_requests -= 1
        self._open_bytes -= size
        self._answered.notify_all()

    def _refuse(self, id: jsonrpc.Id, fault: RpcError) -> None:
        self._outbox.put_answer(jsonrpc.error(id, fault))
        self._flush()

    def _flush(self) -> None:
        """Send what waits as far as that needs no waiting, and call the sending greenlet for the rest.

        Nothing is sent while a message is taken: more may follow.
        """
        if self._taking:
            return
        messages = self._outbox.take()
        if messages and self._transport.send_now(messages):
            self._outbox.sent()
        if not self._outbox.is_idle:
            self._outbox.call_sender()

    def _send(self) -> None:
        try:
            while self._outbox.wait_for_call():
                self._transport.send(self._outbox.take())  # nothing new while a rest of ``send_now`` is to go first
                self._outbox.sent()
        except TransportClosed as error:
            log.debug("cannot send: %s", error)
        finally:
            self._outbox.close(discard=True)
            self._transport.close()
            self._answered.notify_all()  # the reading greenlet may wait for room that no longer comes


class _OutboxSink:
    """Puts events into an outbox as notifications."""

    def __init__(self, outbox: Outbox, flush: Callable[[], None]) -> None:
        self._outbox = outbox
        self._flush = flush

    def turn(self) -> AbstractContextManager[None]:
        return self._outbox.turn()

    def put(self, event: Event) -> None:
        message = jsonrpc.notification(event.method, to_wire(event))
        if isinstance(event, ProcessOutput | CommandOutputDelta):
            self._outbox.put_output(message)
        else:  # there are so many of these as there are requests, so the same bound holds
            self._outbox.put_answer(message, ordered=True)
        if isinstance(event, ProcessStarted | ProcessExited):
            self._outbox.call_sender()  # output follows a start, the close an exit, mostly at once: in one write
        else:
            self._flush()


def _fault_of(error: Exception) -> RpcError:
    """The border: a bug of ours must neither end the connection nor show itself to the peer."""
    if isinstance(error, RpcError):
        return error
    log.error("internal error", exc_info=error)
    return InternalError("internal error")
