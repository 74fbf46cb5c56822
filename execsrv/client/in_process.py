"""A server inside this program: its typed methods called directly, on a hub, without JSON.

The only module of the client that imports gevent and the server. A plain program gets a native thread with a hub of
its own; one that ``gevent.monkey`` has patched already runs on a hub, which then serves both.

gevent.subprocess, which is subprocess in a patched program, reaps every child of the program, also the server's: a
program that uses both may miss an exit code (-1), or be told that a command can't be started.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import gevent
from gevent import monkey
from gevent.event import Event as HubEvent

from execsrv.client.channel import OnClosed, OnEvent, OnResult, Result
from execsrv.client.deadline import Deadline
from execsrv.client.errors import CallTimeout, ClosedError, ServerError
from execsrv.client.lifetime import refuse_fork
from execsrv.client.notifications import Event
from execsrv.config import ExecServerConfig
from execsrv.errors import RpcError
from execsrv.protocol import events
from execsrv.server.dispatch import bind_notification, bind_request
from execsrv.server.handler import Handler
from execsrv.server.lanes import Lanes, Run
from execsrv.server.workers import Workers
from execsrv.wire import to_json, to_wire

#: The longest that the end of the processes may take, in seconds, and that ``close`` waits for it.
END_SECONDS = 5.0
CLOSE_SECONDS = 8.0

Outcome: TypeAlias = Result | Exception
OnOutcome: TypeAlias = Callable[[Outcome], None]


class InProcessChannel:
    """A channel to a server of its own in this program. See Channel."""

    def __init__(self, config: ExecServerConfig, on_event: OnEvent, on_closed: OnClosed) -> None:
        self._on_event = on_event
        self._on_closed = on_closed
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._waiting: set[queue.SimpleQueue[Outcome]] = set()
        self._failure: ClosedError | None = None
        make_server = _HubServer if monkey.is_module_patched("threading") else _ThreadServer
        self._server = make_server(config, self._pass_on)

    def request(
        self, method: str, params: Result, timeout: float | None = None, on_result: OnResult | None = None
    ) -> Result:
        """Call a method on the hub and wait for its result. See Channel."""
        refuse_fork(self._pid)
        outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()

        def finish(outcome: Outcome) -> None:
            if on_result and isinstance(outcome, dict):
                on_result(outcome)
            outcomes.put(outcome)

        try:
            self._ask(outcomes, lambda session: session.request(method, params, finish))
            outcome = outcomes.get(timeout=Deadline(timeout).remaining())
        except queue.Empty:
            raise CallTimeout(method, timeout or 0) from None
        finally:
            with self._lock:
                self._waiting.discard(outcomes)
        if isinstance(outcome, RpcError):
            raise ServerError.from_wire(outcome.to_wire())
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def notify(self, method: str, params: Result) -> None:
        """Call a notification's method on the hub. See Channel."""
        with self._lock:
            if not self._failure:
                self._server.do(lambda session: session.notify(method, params))

    def close(self) -> None:
        """Fail the calls that wait, then end all processes and the hub's thread. See Channel."""
        self._fail(ClosedError("closed by this client"))
        self._server.join()

    def _pass_on(self, event: Event) -> None:
        """Tell of an event, but not of what the end of the connection does to the processes."""
        if not self._failure:
            self._on_event(event)

    def _ask(self, outcomes: queue.SimpleQueue[Outcome], job: Callable[[_Session], None]) -> None:
        with self._lock:
            if self._failure:
                raise self._failure.again()
            self._waiting.add(outcomes)
            self._server.do(job)

    def _fail(self, failure: ClosedError) -> None:
        """Nothing more can be asked: tell everyone who waits, once."""
        with self._lock:
            if self._failure:
                return
            self._failure = failure
            self._server.stop()
            waiting = list(self._waiting)
        for outcomes in waiting:
            outcomes.put(failure.again())
        self._on_closed(failure)


class _Session:
    """The server's side: one handler on the current hub, with the lanes that a connection has."""

    def __init__(self, config: ExecServerConfig, on_event: OnEvent) -> None:
        self._on_event = on_event
        self._workers = Workers()
        self._handler = Handler(config, self._workers, self)
        self._lanes = Lanes(self._workers.files, admit=lambda: not self._ended)
        self._ended = False

    def turn(self) -> contextlib.nullcontext[None]:
        """There is always room: the windows of the processes bound what the client holds."""
        return contextlib.nullcontext()

    def put(self, event: events.Event) -> None:
        """Hand an event of a process to the client."""
        self._on_event(event)

    def request(self, method: str, params: Result, finish: OnOutcome) -> None:
        """Start a call in its lane; ``finish`` gets its outcome."""
        try:
            call = bind_request(self._handler, method, params)
        except Exception as error:  # whatever it is, it is for the caller, who waits
            return finish(error)
        self._lanes.put(call, _outcome, finish)

    def notify(self, method: str, params: Result) -> None:
        """Call a notification's method; a fault of it has no one to be told."""
        with contextlib.suppress(RpcError):
            bind_notification(self._handler, method, params).run()

    def end(self) -> None:
        """End all processes; file requests that have not begun are dropped."""
        self._ended = True
        self._handler.end("connectionClosed", END_SECONDS)
        self._workers.close()


class _HubServer:
    """A session on the hub that the caller runs on."""

    def __init__(self, config: ExecServerConfig, on_event: OnEvent) -> None:
        self._session = _Session(config, on_event)

    def do(self, job: Callable[[_Session], None]) -> None:
        """Run ``job``, which doesn't wait."""
        job(self._session)

    def stop(self) -> None:
        """Begin to end the session; nothing may be done after this."""
        self._ending = gevent.spawn(self._session.end)

    def join(self) -> None:
        """Wait for the end, up to CLOSE_SECONDS."""
        self._ending.join(CLOSE_SECONDS)


class _ThreadServer:
    """A session on a native thread with a hub of its own."""

    def __init__(self, config: ExecServerConfig, on_event: OnEvent) -> None:
        self._jobs: deque[Callable[[_Session], None]] = deque()
        self._running = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(config, on_event), name="execsrv-hub", daemon=True)
        self._thread.start()
        self._running.wait()

    def do(self, job: Callable[[_Session], None]) -> None:
        """Let the thread run ``job``, which doesn't wait."""
        self._jobs.append(job)
        self._wake_up()

    def stop(self) -> None:
        """Begin to end the session and its thread; nothing may be done after this."""
        self.do(lambda _: self._stopped.set())

    def join(self) -> None:
        """Wait for the end, up to CLOSE_SECONDS."""
        self._thread.join(CLOSE_SECONDS)

    def _run(self, config: ExecServerConfig, on_event: OnEvent) -> None:
        hub = gevent.get_hub()
        session = _Session(config, on_event)
        self._stopped = HubEvent()
        waker = hub.loop.async_()
        waker.start(self._run_jobs, session)
        self._wake_up: Callable[[], None] = waker.send
        self._running.set()
        self._stopped.wait()
        session.end()
        waker.close()
        hub.destroy(destroy_loop=True)

    def _run_jobs(self, session: _Session) -> None:
        while self._jobs:
            self._jobs.popleft()(session)


def _outcome(run: Run) -> Outcome:
    try:
        result: Result = to_json(to_wire(run()))
        return result
    except Exception as error:  # whatever it is, it is for the caller, who waits
        return error
