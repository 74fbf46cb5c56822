"""Random mutations of valid messages: each is answered or documented to have no answer, and nothing breaks.

Harmless stand-ins take the place of the files and of the threads that would start processes, so that whatever a mutated
message asks for is parsed, checked and dispatched, and then reaches neither the disk nor the system.
"""

from __future__ import annotations

import copy
import json
import logging
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import gevent
import pytest
from gevent.queue import Queue

from execsrv import schemas
from execsrv.config import ExecServerConfig
from execsrv.errors import InternalError
from execsrv.jsonrpc import Encoded
from execsrv.protocol.common import Empty
from execsrv.server.connection import Connection
from execsrv.server.files.handles import Handles
from execsrv.server.workers import Workers
from execsrv.transports.frames import Decoder, FrameError
from execsrv.transports.stdio import LineSplitter

PATIENCE = 20

ODD_VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 1.0, 1.5, 1e308, 2**31, 2**53, 2**63, 2**64, -(2**70), 10**999, 10**1001),
    *("", " ", "\0", "\ud800", "\u2028", "é", "x" * 5000, "/", "/tmp", "file:///%FF", "file://host/", "%", "YQ=="),
    *([], [[]], [None], {}, {"": ""}, {"mode": "none"}, {"rows": 1, "cols": 0}, [1] * 300),
]

PROBE = {"id": "probe", "method": "process/terminate", "params": {"processId": "nobody"}}


class QueueTransport:
    """A transport between greenlets."""

    def __init__(self) -> None:
        self.incoming: Queue[bytes | None] = Queue()
        self.outgoing: Queue[bytes] = Queue()

    def receive(self, before_wait: Callable[[], object]) -> bytes | None:
        """What was put into ``incoming``."""
        if self.incoming.empty():
            before_wait()
        return self.incoming.get()

    def send(self, messages: Sequence[Encoded]) -> None:
        """Put each into ``outgoing``."""
        for message in messages:
            self.outgoing.put(bytes(message))

    def send_now(self, messages: Sequence[Encoded]) -> bool:
        """The same."""
        self.send(messages)
        return True

    def is_hung_up(self) -> bool:
        """The input has an end only when it is closed."""
        return False

    def close(self) -> None:
        """End the input."""
        self.incoming.put(None)


class NoProcesses:
    """In place of the threads that start processes: after a while the system refuses."""

    def call(self, *_: Any) -> NoReturn:
        """Do not call; raise in its place."""
        gevent.sleep(0)
        raise InternalError("no processes here", kind="spawnFailed")


class NoFiles:
    """In place of the files: everything succeeds and nothing is done."""

    def __init__(self) -> None:
        self.handles = Handles()

    def end(self) -> bool:
        """There is nothing to be closed."""
        return False

    def __getattr__(self, method: str) -> Callable[[Any], Empty | None]:
        """Every file method; none can answer at once."""
        return lambda params: None if method.endswith("_at_once") else Empty()


class HarmlessWorkers(Workers):
    """Threads that start no processes."""

    def __init__(self) -> None:
        super().__init__()
        self.spawn = NoProcesses()  # type: ignore[assignment]


class Subject:
    """A connection after the handshake, on this thread's hub."""

    def __init__(self) -> None:
        self._transport = QueueTransport()
        self._workers = HarmlessWorkers()
        connection = Connection(self._transport, ExecServerConfig(), self._workers)
        connection._handler.files = NoFiles()  # type: ignore[assignment]
        self._serving = gevent.spawn(connection.serve)
        self.ask({"id": "probe", "method": "initialize", "params": {"clientName": "fuzz"}})
        self.put(b'{"method": "initialized"}')

    def put(self, data: bytes) -> None:
        """Send a message."""
        self._transport.incoming.put(data)

    def ask(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        """Send a message and return all that comes up to its answer."""
        self.put(json.dumps(message).encode())
        return self.until(message["id"])

    def until(self, id: Any) -> list[dict[str, Any]]:
        """All that comes up to the answer of this id."""
        came: list[dict[str, Any]] = []
        while not came or not _same(came[-1].get("id"), id):
            came.append(json.loads(self._transport.outgoing.get(timeout=PATIENCE)))
        return came

    def end(self) -> None:
        """End the connection; it must end by itself, without an error."""
        self._transport.incoming.put(None)
        self._serving.get(timeout=PATIENCE)
        self._workers.files.close()


# ---- mutations -----------------------------------------------------------------------------------------------------


def valid_messages() -> list[dict[str, Any]]:
    """The examples of all that a client may send."""
    messages: list[dict[str, Any]] = []
    for method in schemas.methods():
        kind = schemas.kind(method)
        for example in schemas.schema(method)["examples"]:
            message = {"method": method, "params": example["params"]}
            if kind == "request":
                messages.append({"id": len(messages), **message})
            elif kind == "clientNotification":
                messages.append(message)
    return messages


def mutated(dice: random.Random, messages: list[dict[str, Any]]) -> bytes:
    """One of the messages with a few of its values or bytes changed."""
    message = json.loads(json.dumps(dice.choice(messages)))
    for _ in range(dice.randint(0, 3)):
        change_value(dice, message)
    data = json.dumps(message, ensure_ascii=dice.random() < 0.5).encode(errors="surrogatepass")
    for _ in range(dice.choice([0, 0, 1, 5])):
        data = change_bytes(dice, data)
    return data


def change_value(dice: random.Random, value: Any) -> None:
    """Somewhere within ``value``: replace, drop, double or rename a member."""
    if not isinstance(value, (dict, list)) or not value:
        return
    key = dice.choice(list(value) if isinstance(value, dict) else range(len(value)))
    if dice.random() < 0.6 and isinstance(value[key], (dict, list)) and value[key]:
        change_value(dice, value[key])
    elif dice.random() < 0.2:
        del value[key]
    elif dice.random() < 0.2 and isinstance(value, dict):
        value[dice.choice(["", "é", "\ud800", f"{key}x", "future"])] = value.pop(key)
    else:
        value[key] = copy.deepcopy(dice.choice(ODD_VALUES))


def change_bytes(dice: random.Random, data: bytes) -> bytes:
    """Cut, double, overwrite or insert a few bytes somewhere."""
    start = dice.randrange(len(data) + 1)
    end = min(len(data), start + dice.randrange(8))
    middle = dice.choice([b"", data[start:end] * 2, dice.randbytes(3), b"[" * 400, b'"', b"\xff", b"{}", b",", b"e9"])
    return data[:start] + middle + data[end:]


# ---- judgement -----------------------------------------------------------------------------------------------------


def own_id(data: bytes) -> int | str | None:
    """The id that a message must be answered under; None when it is no request with a good id."""
    try:
        message = json.loads(data.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        return None
    id = message.get("id")
    is_id = isinstance(id, str) or (isinstance(id, int) and not isinstance(id, bool) and abs(id) < 10**1000)
    return id if is_id else None


def may_be_silent(data: bytes) -> bool:
    """Is it a notification, which has no answer when nothing is wrong?"""
    message = json.loads(data.decode())
    return "id" not in message and message["method"] in ("initialized", "process/ack")


def _refuse(name: str) -> None:
    raise ValueError(name)


def _same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and bool(left == right)


def check(message: dict[str, Any]) -> None:
    """An answer is a result, or an error that was meant."""
    assert ("result" in message) != ("error" in message), message
    if "error" in message:
        error = message["error"]
        assert isinstance(error["code"], int) and error["message"] and "Traceback" not in error["message"]
        assert error["data"]["kind"] not in ("", "internal"), message


def mutations(count: int, seed: int) -> Iterator[bytes]:
    """So many messages, the same ones for the same seed."""
    dice = random.Random(seed)
    messages = valid_messages()
    for _ in range(count):
        yield mutated(dice, messages)


def put_to_the_test(count: int, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """Send each; see it answered, once, and the connection go on."""
    subject = Subject()
    for data in mutations(count, seed):
        subject.put(data)
        id = own_id(data)
        came = [] if id is None else subject.until(id)
        came += subject.ask(PROBE)
        for message in came:
            check(message)
        assert len(came) == 2 or (len(came) == 1 and may_be_silent(data)), data
    subject.end()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_mutated_messages_are_answered(caplog: pytest.LogCaptureFixture) -> None:
    """A few hundred, the same each time."""
    put_to_the_test(400, 1, caplog)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(2, 12))
def test_ten_thousand_mutated_messages_are_answered(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """A thousand for each seed."""
    put_to_the_test(1000, seed, caplog)


def test_valid_messages_reach_their_handlers() -> None:
    """Without mutations nothing is refused by shape or handshake: so the mutations start from something."""
    subject = Subject()
    for message in valid_messages():
        if message["method"] == "initialize" or "id" not in message:
            continue
        answer = subject.ask(message)[-1]
        assert answer.get("error", {}).get("code") not in (-32602, -32700), answer
    subject.end()


def test_random_bytes_as_frames_are_events_or_a_fault() -> None:
    """The decoder of websocket frames never fails otherwise."""
    dice = random.Random(1)
    for _ in range(500):
        decoder = Decoder(1000)
        try:
            for _ in range(10):
                decoder.feed(dice.choice([b"\x81\x85", b"\x01\x80", b"\x89\x80", b"\x88\x82", b"\x80\xfe"]))
                decoder.feed(dice.randbytes(dice.randrange(20)))
                while decoder.next_event() is not None:
                    pass
        except FrameError as fault:
            assert fault.code in (1002, 1007, 1009)


def test_random_cuts_of_a_stream_give_the_same_lines() -> None:
    """However the bytes arrive."""
    dice = random.Random(1)
    stream = b"".join(dice.choice([b"\n", b"\r\n", b"a", b"bc", b" ", b"x" * 30]) for _ in range(2000))
    whole = list(LineSplitter(20).feed(stream))
    for _ in range(50):
        splitter, at = LineSplitter(20), 0
        lines: list[bytes | None] = []
        while at < len(stream):
            end = at + dice.randrange(1, 50)
            lines += splitter.feed(stream[at:end])
            at = end
        assert lines == whole
