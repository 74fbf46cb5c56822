"""Requests and their answers over a message stream."""

from __future__ import annotations

import itertools
import logging
import os
import queue
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from execsrv import jsonrpc
from execsrv.client.deadline import Deadline
from execsrv.client.errors import CallTimeout, ClosedError, ExecServerError, JsonError, ProtocolError, ServerError
from execsrv.client.lifetime import refuse_fork
from execsrv.client.notifications import Event, ServerFault, parse_notification
from execsrv.client.outbox import Outbox
from execsrv.client.stdio_stream import MessageStream
from execsrv.errors import InvalidRequest, ParseError

logger = logging.getLogger(__name__)

#: How long ``close`` waits for the server's end, in seconds: a server of this project ends within 5 s.
CLOSE_SECONDS = 8.0

#: How long a server that has ended the connection may take to accept our farewell, in seconds.
FAREWELL_SECONDS = 1.0

Result: TypeAlias = dict[str, Any]
OnResult: TypeAlias = Callable[[Result], None]
OnEvent: TypeAlias = Callable[[Event], None]
OnClosed: TypeAlias = Callable[[ClosedError], None]


class Channel(Protocol):
    """A connection to a server, made with two callbacks that must not wait.

    on_event: called with each event, in order, always by the same thread.
    on_closed: called once, when nothing more can be asked; what was in flight may still follow on ``on_event``.
    """

    def request(
        self, method: str, params: Result, timeout: float | None = None, on_result: OnResult | None = None
    ) -> Result:
        """Ask the server and wait up to ``timeout`` seconds for its result.

        ``on_result`` gets the result before any event that comes after it. Raises ServerError, ClosedError, and
        CallTimeout; a late answer is ignored.
        """

    def notify(self, method: str, params: Result) -> None:
        """Tell the server something without waiting for anything; dropped when the connection is closed."""

    def close(self) -> None:
        """End the connection and all that belongs to it; wait for that, but not for ever. Twice is harmless."""


class JsonChannel:
    """A channel over a stream of JSON messages. See Channel.

    Two threads work for it: one always reads, one writes (the Outbox). Neither keeps the callbacks' owner alive if
    these are weak.
    """

    def __init__(self, stream: MessageStream, on_event: OnEvent, on_closed: OnClosed) -> None:
        self._stream = stream
        self._on_event = on_event
        self._on_closed = on_closed
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._pending: dict[jsonrpc.Id, _Pending] = {}
        self._failure: ClosedError | None = None
        self._outbox = Outbox(stream)
        self._reader = threading.Thread(target=self._run, name="execsrv-reader", daemon=True)
        self._reader.start()

    def request(
        self, method: str, params: Result, timeout: float | None = None, on_result: OnResult | None = None
    ) -> Result:
        """Send a request and wait for its answer. See Channel."""
        refuse_fork(self._pid)
        deadline = Deadline(timeout)
        id = next(self._ids)
        message = bytes(jsonrpc.request(id, method, params))
        pending = _Pending(on_result)
        self._register(id, pending)
        try:
            if not self._outbox.put(message, deadline):
                raise queue.Empty
            return pending.wait(deadline)
        except queue.Empty:
            raise CallTimeout(method, timeout or 0) from None
        finally:
            with self._lock:
                self._pending.pop(id, None)

    def notify(self, method: str, params: Result) -> None:
        """Send a notification. See Channel."""
        self._outbox.post(bytes(jsonrpc.notification(method, params)))

    def close(self) -> None:
        """Say goodbye, wait for the server to do the same, else cut the line. See Channel."""
        self._fail(ClosedError("closed by this client"))
        self._outbox.finish()
        self._reader.join(CLOSE_SECONDS)
        self._stream.abort()
        self._reader.join(CLOSE_SECONDS)

    def _register(self, id: jsonrpc.Id, pending: _Pending) -> None:
        with self._lock:
            if self._failure:
                raise self._failure.again() from self._failure
            self._pending[id] = pending

    def _fail(self, error: ClosedError) -> None:
        """Nothing more can be asked: tell everyone who waits, once."""
        with self._lock:
            if self._failure:
                return
            self._failure = error
            pending = list(self._pending.values())
        for call in pending:
            call.fail(error.again())
        self._on_closed(error)

    # ---- the reading thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        """Read until the end, then tear everything down."""
        error = ClosedError("the client stopped reading")
        try:
            error = self._read()
        finally:
            self._fail(error)
            self._outbox.finish()
            self._outbox.join(FAREWELL_SECONDS)
            self._stream.abort()
            self._outbox.join()
            self._stream.close()

    def _read(self) -> ClosedError:
        """Handle messages until there are no more; return why."""
        try:
            for message in self._stream.messages(self._outbox.poke):
                self._handle(message)
        except ClosedError as error:
            return error
        except OSError as error:
            return ClosedError(str(error))
        return ClosedError("the server closed the connection")

    def _handle(self, data: bytes) -> None:
        try:
            message = jsonrpc.parse(data)
        except ParseError as error:
            raise JsonError(error.message) from error
        except InvalidRequest as error:
            raise ProtocolError(error.message) from error
        match message:
            case jsonrpc.Response():
                self._handle_response(message)
            case jsonrpc.Notification():
                self._handle_notification(message)
            case jsonrpc.Request():
                raise ProtocolError(f"the server sent the request {message.method}")

    def _handle_response(self, response: jsonrpc.Response) -> None:
        with self._lock:
            pending = self._pending.get(response.id)
        if pending:
            pending.answer(response)
        elif response.id == jsonrpc.NO_ID and response.outcome == "error":
            fault = ServerFault(ServerError.from_wire(response.value))
            logger.error("the server reports: %s", fault.error)
            self._on_event(fault)
        else:
            logger.debug("ignored an answer to the unknown request %r", response.id)

    def _handle_notification(self, notification: jsonrpc.Notification) -> None:
        event = parse_notification(notification.method, notification.params)
        if event:
            self._on_event(event)
        else:
            logger.debug("ignored the unknown notification %s", notification.method)


class _Pending:
    """One request that waits for its answer."""

    def __init__(self, on_result: OnResult | None) -> None:
        self._on_result = on_result
        self._outcome: queue.SimpleQueue[Result | ExecServerError] = queue.SimpleQueue()

    def wait(self, deadline: Deadline) -> Result:
        """The result. Raises the error that came instead, and queue.Empty when nothing came in time."""
        outcome = self._outcome.get(timeout=deadline.remaining())
        if isinstance(outcome, ExecServerError):
            raise outcome
        return outcome

    def answer(self, response: jsonrpc.Response) -> None:
        """Hand the server's answer over."""
        if response.outcome == "error":
            return self.fail(ServerError.from_wire(response.value))
        if not isinstance(response.value, dict):
            raise ProtocolError("the server sent a result that is not an object")
        if self._on_result:
            self._on_result(response.value)
        self._outcome.put(response.value)

    def fail(self, error: ExecServerError) -> None:
        """There will be no answer."""
        self._outcome.put(error)
