"""What the server's tests share: a sink that records, a transport in memory, a peer that speaks through it."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gevent
import pytest
from descriptors import open_descriptors
from gevent.event import Event as Flag
from gevent.queue import Queue
from gevent.socket import wait_read

from execsrv.config import ExecServerConfig
from execsrv.jsonrpc import Encoded
from execsrv.protocol.events import Event, ProcessClosed, ProcessExited, ProcessOutput, ProcessStarted
from execsrv.protocol.processes import ProcessStartParams
from execsrv.server.connection import Connection
from execsrv.server.processes.command import Command, make_command
from execsrv.server.processes.proc_stat import all_processes
from execsrv.server.processes.process import Bounds, Process
from execsrv.server.processes.spawn import spawn
from execsrv.server.processes.supervisor import Supervisor
from execsrv.server.processes.table import ProcessTable
from execsrv.server.workers import Workers
from execsrv.transports import MessageTooLarge, TransportClosed

#: The longest that a test waits for anything, in seconds.
TIME_LIMIT_S = 20

#: What the children of the tests need.
ENV = {"PATH": os.environ["PATH"], "LC_ALL": "C"}


# ---- waiting -------------------------------------------------------------------------------------------------------


class Waiting:
    """Something that changes, and whoever waits until it has changed enough."""

    def __init__(self) -> None:
        self._changed = Flag()

    def has_changed(self) -> None:
        """Let those who wait look again."""
        self._changed.set()

    def wait_until(self, predicate: Callable[[], object]) -> Any:
        """Wait for a true value of ``predicate()`` and return it."""
        with gevent.Timeout(TIME_LIMIT_S, AssertionError(f"waited for {TIME_LIMIT_S} s in vain")):
            while not (value := predicate()):
                self._changed.clear()
                self._changed.wait()
            return value


def wait_dead(pid: int) -> None:
    """Wait until a process that was killed is gone, or a zombie; it need not be our child."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        wait_read(pidfd, timeout=TIME_LIMIT_S)
    finally:
        os.close(pidfd)


def settled_descriptors() -> set[tuple[str, str]]:
    """This program's descriptors, after those that are being closed are."""
    gevent.idle()
    return open_descriptors()


def children() -> set[int]:
    """This program's children, running or zombies."""
    return {process.pid for process in all_processes() if process.parent == os.getpid()}


@pytest.fixture
def died() -> Callable[[int], None]:
    """Waits until a pid is dead."""
    return wait_dead


@pytest.fixture
def nothing_left() -> Iterator[Callable[[], None]]:
    """Checks that since its making no descriptor stayed open, and no child stayed; also when the test ends."""
    descriptors, others = settled_descriptors(), children()

    def check() -> None:
        assert children() - others == set()
        assert settled_descriptors() - descriptors == set()

    yield check
    check()


@pytest.fixture(autouse=True)
def time_limit() -> Iterator[None]:
    """No test hangs."""
    with gevent.Timeout(3 * TIME_LIMIT_S, AssertionError("the test takes too long")):
        yield


# ---- processes -----------------------------------------------------------------------------------------------------


class RecordingSink(Waiting):
    """Keeps every event. ``is_full``: nobody gets a turn until it is false again."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Event] = []
        self._by_id: dict[str, list[Any]] = {}
        self._by_kind: dict[tuple[type, str], Any] = {}
        self.is_full = False
        self.turns_waiting = 0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait until it is not full."""
        self.turns_waiting += 1
        self.has_changed()
        self.wait_until(lambda: not self.is_full)
        self.turns_waiting -= 1
        yield

    def put(self, event: Event) -> None:
        """Keep ``event``."""
        self.events.append(event)
        self._by_id.setdefault(event.process_id, []).append(event)
        self._by_kind[type(event), event.process_id] = event
        self.has_changed()

    def set_full(self, is_full: bool) -> None:
        """Refuse turns, or give them again."""
        self.is_full = is_full
        self.has_changed()

    def of(self, process_id: str) -> list[Any]:
        """The events of one process."""
        return self._by_id.get(process_id, [])

    def output(self, process_id: str, *streams: str) -> bytes:
        """What a process wrote so far, to ``streams`` or to any."""
        events = [event for event in self.of(process_id) if isinstance(event, ProcessOutput)]
        return b"".join(event.chunk for event in events if not streams or event.stream in streams)

    def wait_output(self, process_id: str, wanted: bytes) -> bytes:
        """Wait until a process has written ``wanted``; everything that it wrote."""
        self.wait_until(lambda: wanted in self.output(process_id))
        return self.output(process_id)

    def wait_exited(self, process_id: str) -> ProcessExited:
        """Wait for the exit."""
        return self._wait_for(ProcessExited, process_id)

    def wait_closed(self, process_id: str) -> ProcessClosed:
        """Wait for the close."""
        return self._wait_for(ProcessClosed, process_id)

    def wait_started(self, process_id: str) -> ProcessStarted:
        """Wait for the start."""
        return self._wait_for(ProcessStarted, process_id)

    def _wait_for(self, kind: type, process_id: str) -> Any:
        return self.wait_until(lambda: self._by_kind.get((kind, process_id)))


@pytest.fixture
def sink() -> RecordingSink:
    """A sink that records."""
    return RecordingSink()


@pytest.fixture(scope="session")
def workers() -> Workers:
    """The threads of this hub."""
    return Workers()


@pytest.fixture
def command() -> Callable[..., Command]:
    """Makes a command; a single string is a shell script."""

    def make(*argv: str, **options: Any) -> Command:
        words = ["/bin/sh", "-c", argv[0]] if len(argv) == 1 else list(argv)
        return make_command(**{"argv": words, "cwd": "/", "env": ENV, "size": None, **options})

    return make


@pytest.fixture
def live(
    sink: RecordingSink, workers: Workers, command: Callable[..., Command], nothing_left: Callable[[], None]
) -> Iterator[Callable[..., Process]]:
    """Starts processes that report to ``sink``; at the end they are killed, and nothing of them may be left."""
    lives: list[tuple[Process, gevent.Greenlet]] = []

    def start(
        *argv: str,
        process_id: str = "p",
        retained_bytes: int = 1 << 20,
        window_bytes: int | None = None,
        timeout: float | None = None,
        drain_timeout: float | None = None,
        **options: Any,
    ) -> Process:
        bounds = Bounds(retained_bytes, window_bytes, timeout, drain_timeout)
        process = Process(process_id, command(*argv, **options), sink, bounds)
        process.attach(workers.spawn.call(spawn, process.command))
        lives.append((process, gevent.spawn(run, process)))
        return process

    def run(process: Process) -> None:
        ended = Flag()
        process.begin(on_exit=ended.set)
        ended.wait()
        process.finish()

    yield start
    sink.set_full(False)
    for process, life in lives:
        process.terminate()
        process.give_up()
        life.get(timeout=TIME_LIMIT_S)


@pytest.fixture
def config() -> ExecServerConfig:
    """The usual limits."""
    return ExecServerConfig()


@pytest.fixture
def supervisor(
    config: ExecServerConfig, workers: Workers, sink: RecordingSink, nothing_left: Callable[[], None]
) -> Iterator[Supervisor]:
    """An owner of processes; at the end nothing of them may be left."""
    supervisor = Supervisor(config, workers)
    yield supervisor
    sink.set_full(False)
    supervisor.end("connectionClosed", TIME_LIMIT_S)


@pytest.fixture
def table(config: ExecServerConfig, supervisor: Supervisor, sink: RecordingSink) -> Iterator[ProcessTable]:
    """The methods of ``process/*``."""
    table = ProcessTable(config, supervisor, sink)
    yield table
    table.close()


@pytest.fixture
def start_params() -> Callable[..., ProcessStartParams]:
    """Makes the params of a start; a single string is a shell script."""

    def make(process_id: str, *argv: str, **options: Any) -> ProcessStartParams:
        words = ["/bin/sh", "-c", argv[0]] if len(argv) == 1 else list(argv)
        fields = {"process_id": process_id, "argv": words, "cwd": "/", "env": ENV, "tty": False}
        return ProcessStartParams(**{**fields, **options})

    return make


class Daemon:
    """A shell that gives up its streams, and does what it is asked to once: that shows that it lives."""

    def __init__(self, directory: Path) -> None:
        for name in ("ask", "reply"):
            os.mkfifo(directory / name)
        self.script = f"cd {directory}; (read line < ask; echo alive > reply) < /dev/null > /dev/null 2>&1 &"
        self._ask, self._reply = (os.open(directory / name, os.O_RDWR) for name in ("ask", "reply"))

    def ask(self) -> bytes:
        """Wait for its reply."""
        os.write(self._ask, b"\n")
        wait_read(self._reply, timeout=TIME_LIMIT_S)
        return os.read(self._reply, 100)

    def close(self) -> None:
        """Close our ends."""
        os.close(self._ask)
        os.close(self._reply)


@pytest.fixture
def daemon(nothing_left: Callable[[], None], tmp_path: Path) -> Iterator[Daemon]:
    """What to run as a daemon, and how to ask whether it lives. It ends by answering."""
    daemon = Daemon(tmp_path)
    yield daemon
    daemon.close()


# ---- connections ---------------------------------------------------------------------------------------------------


class MemoryTransport(Waiting):
    """Messages in two queues. ``sent`` holds what the server sent, from JSON; ``batches`` how many went together."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[dict[str, Any]] = []
        self.batches: list[int] = []
        self.answers: dict[Any, list[dict[str, Any]]] = {}
        self.is_closed = False
        self.is_reading = True
        self.is_gone = False
        self._incoming: Queue[bytes | Exception | None] = Queue()
        self._unsent: list[Encoded] = []

    def receive(self, before_wait: Callable[[], object]) -> bytes | None:
        """The next message; raises what was put as an exception."""
        if self._incoming.empty():
            before_wait()
        message = self._incoming.get()
        if message is None:
            self._incoming.put(None)
        if isinstance(message, Exception):
            raise message
        return message

    def send(self, messages: Sequence[Encoded]) -> None:
        """Record the messages when the peer reads."""
        self._unsent += messages
        self.wait_until(lambda: self.is_reading or self._has_ended)
        if self._has_ended:
            raise TransportClosed
        self._record()

    def send_now(self, messages: Sequence[Encoded]) -> bool:
        """Record the messages if the peer reads."""
        self._unsent += messages
        can_send = self.is_reading and not self._has_ended
        if can_send:
            self._record()
        return can_send

    @property
    def _has_ended(self) -> bool:
        return self.is_closed or self.is_gone

    def _record(self) -> None:
        for message in self._unsent:
            value = json.loads(bytes(message))
            self.sent.append(value)
            if "id" in value:
                self.answers.setdefault(value["id"], []).append(value)
        self.batches.append(len(self._unsent))
        self._unsent.clear()
        self.has_changed()

    def is_hung_up(self) -> bool:
        """Was it closed?"""
        return self.is_closed

    def close(self) -> None:
        """End both directions."""
        self.is_closed = True
        self.put(None)
        self.has_changed()

    def put(self, message: bytes | Exception | None) -> None:
        """Let the server receive ``message``; None is the end."""
        self._incoming.put(message)

    @property
    def is_drained(self) -> bool:
        """Has the server taken all that was put?"""
        return self._incoming.empty()


class Peer:
    """A client that speaks raw messages to a Connection."""

    def __init__(self, config: ExecServerConfig, workers: Workers) -> None:
        self.transport = MemoryTransport()
        self.connection = Connection(self.transport, config, workers)
        self.serving = gevent.spawn(self.connection.serve)
        self._last_id = 0

    def shake_hands(self) -> None:
        """Do the handshake."""
        self.call("initialize", clientName="test")
        self.notify("initialized")

    def send(self, message: Any) -> None:
        """Send bytes as they are, anything else as JSON."""
        self.transport.put(message if isinstance(message, bytes) else json.dumps(message).encode())

    def send_too_much(self) -> None:
        """Send a message above the limit."""
        self.transport.put(MessageTooLarge())

    def notify(self, method: str, **params: Any) -> None:
        """Send a notification."""
        self.send({"method": method, "params": params})

    def ask(self, method: str, **params: Any) -> int:
        """Send a request and return its id."""
        self._last_id += 1
        self.send({"id": self._last_id, "method": method, "params": params})
        return self._last_id

    def start(self, process_id: str, *argv: str, **options: Any) -> int:
        """Ask for a process; a single string is a shell script."""
        words = ["/bin/sh", "-c", argv[0]] if len(argv) == 1 else list(argv)
        fields = {"processId": process_id, "argv": words, "cwd": "/", "env": ENV, "tty": False}
        return self.ask("process/start", **{**fields, **options})

    def answers(self, id: Any) -> list[dict[str, Any]]:
        """All answers under ``id`` so far."""
        return self.transport.answers.get(id, [])

    def answer(self, id: Any) -> dict[str, Any]:
        """Wait for the answer under ``id``."""
        return self.transport.wait_until(lambda: next(iter(self.answers(id)), None))

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and return its result."""
        return self.answer(self.ask(method, **params))["result"]

    def refusal(self, method: str, **params: Any) -> tuple[int, str, str]:
        """Send a request that fails: code, kind and message of the error."""
        error = self.answer(self.ask(method, **params))["error"]
        return error["code"], error["data"]["kind"], error["message"]

    def fault_of(self, message: Any) -> tuple[int, str, str]:
        """Send what is answered under the id -1: code, kind and message of the error."""
        before = len(self.answers(-1))
        self.send(message)
        error = self.transport.wait_until(lambda: self.answers(-1)[before:])[0]["error"]
        return error["code"], error["data"]["kind"], error["message"]

    @property
    def sent(self) -> list[dict[str, Any]]:
        """Everything that the server sent, in order."""
        return self.transport.sent

    def events(self, process_id: str) -> list[dict[str, Any]]:
        """The notifications of one process."""
        return [m for m in self.sent if "method" in m and m["params"]["processId"] == process_id]

    def event(self, method: str, process_id: str) -> dict[str, Any]:
        """Wait for a notification; its params."""

        def find() -> Any:
            return next((event["params"] for event in self.events(process_id) if event["method"] == method), None)

        return self.transport.wait_until(find)

    def output(self, process_id: str, *streams: str) -> bytes:
        """What a process wrote so far, in any dialect."""
        chunks = [event["params"] for event in self.events(process_id) if "chunk" in event["params"]]
        return b"".join(base64.b64decode(c["chunk"]) for c in chunks if not streams or c["stream"] in streams)

    def wait_output(self, process_id: str, wanted: bytes) -> bytes:
        """Wait until a process has written ``wanted``; everything that it wrote."""
        self.transport.wait_until(lambda: wanted in self.output(process_id))
        return self.output(process_id)

    def stop_reading(self) -> None:
        """Let the server's messages pile up."""
        self.transport.is_reading = False

    def read_again(self) -> None:
        """Take the server's messages again."""
        self.transport.is_reading = True
        self.transport.has_changed()

    def hang_up(self) -> float:
        """End the input and wait until the server has ended the connection; the seconds that it took."""
        begin = time.monotonic()
        self.transport.put(None)
        self.serving.get(timeout=TIME_LIMIT_S)
        return time.monotonic() - begin

    def vanish(self) -> None:
        """Be gone: the server's next send fails."""
        self.transport.is_gone = True
        self.transport.has_changed()


@pytest.fixture
def make_peer(workers: Workers, nothing_left: Callable[[], None]) -> Iterator[Callable[..., Peer]]:
    """Makes peers, each with a connection of its own; at the end nothing of them may be left."""
    peers: list[Peer] = []

    def make(**limits: Any) -> Peer:
        peers.append(Peer(ExecServerConfig(**limits), workers))
        return peers[-1]

    yield make
    for peer in peers:
        peer.read_again()
        peer.hang_up()


@pytest.fixture
def new_peer(make_peer: Callable[..., Peer]) -> Peer:
    """A peer before the handshake."""
    return make_peer()


@pytest.fixture
def peer(new_peer: Peer) -> Peer:
    """A peer after the handshake."""
    new_peer.shake_hands()
    return new_peer
