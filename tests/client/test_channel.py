"""Tests of execsrv.client.channel."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Iterator

import pytest
from background import Background
from fake_server import WAIT, FakeServer

from execsrv.client.channel import JsonChannel
from execsrv.client.errors import CallTimeout, ClosedError, JsonError, ProtocolError, ServerError
from execsrv.client.notifications import Event, ServerFault
from execsrv.client.stdio_stream import StdioStream
from execsrv.protocol.events import ProcessStarted


class Recorder:
    """The callbacks of a channel."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.errors: list[ClosedError] = []
        self.changed = threading.Condition()

    def on_event(self, event: Event) -> None:
        """Note an event."""
        with self.changed:
            self.events.append(event)
            self.changed.notify_all()

    def on_closed(self, error: ClosedError) -> None:
        """Note the end."""
        with self.changed:
            self.errors.append(error)
            self.changed.notify_all()

    def wait_event(self) -> Event:
        """The first event."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.events, WAIT)
            return self.events[0]

    def wait_closed(self) -> ClosedError:
        """The end."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.errors, WAIT)
            return self.errors[0]


@pytest.fixture
def recorder() -> Recorder:
    """Callbacks that take note."""
    return Recorder()


@pytest.fixture
def channel(fake: FakeServer, recorder: Recorder) -> Iterator[JsonChannel]:
    """A channel to ``fake``."""
    channel = JsonChannel(StdioStream(*fake.descriptors()), recorder.on_event, recorder.on_closed)
    yield channel
    channel.close()


def test_answers_find_their_requests(channel: JsonChannel, fake: FakeServer) -> None:
    """In whatever order they come."""
    first = Background(lambda: channel.request("one", {"a": 1}))
    second = Background(lambda: channel.request("two", {}))
    one, two = fake.wait_for("one"), fake.wait_for("two")
    assert one["params"] == {"a": 1}
    fake.answer(two, {"n": 2})
    fake.answer(one, {"n": 1})
    assert [first.result(), second.result()] == [{"n": 1}, {"n": 2}]


def test_error_answer_is_raised(channel: JsonChannel, fake: FakeServer) -> None:
    """With all that the server told."""
    call = Background(lambda: channel.request("one", {}))
    fake.refuse(fake.wait_for("one"), -32600, "unknown process id p", kind="unknownProcess", more=1)
    with pytest.raises(ServerError, match="unknown process id p") as caught:
        call.result()
    error = caught.value
    assert (error.code, error.message, error.kind) == (-32600, "unknown process id p", "unknownProcess")
    assert error.data == {"kind": "unknownProcess", "more": 1}


@pytest.mark.parametrize("error", ["text", {}, {"code": 1, "message": "m", "data": [1]}])
def test_odd_error_answer_is_a_server_error(channel: JsonChannel, fake: FakeServer, error: object) -> None:
    """Whatever an error looks like, the call ends with it."""
    call = Background(lambda: channel.request("one", {}))
    fake.send({"id": fake.wait_for("one")["id"], "error": error})
    with pytest.raises(ServerError):
        call.result()


def test_answer_that_does_not_come_in_time(
    channel: JsonChannel, fake: FakeServer, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    """The call ends; the late answer harms nobody."""
    with pytest.raises(CallTimeout, match="no answer to slow within 0.05 s") as caught:
        channel.request("slow", {}, timeout=0.05)
    assert isinstance(caught.value, TimeoutError)
    fake.handlers["next"] = lambda _: {"fine": True}
    with caplog.at_level(logging.DEBUG):
        fake.answer(fake.wait_for("slow"), {})
        assert channel.request("next", {}) == {"fine": True}
    assert "ignored an answer" in caplog.text
    assert recorder.errors == []


def test_result_is_told_before_later_events(channel: JsonChannel, fake: FakeServer, recorder: Recorder) -> None:
    """``on_result`` runs before the event that came right behind the answer."""
    events_before: list[int] = []

    def count(_: object) -> None:
        events_before.append(len(recorder.events))

    call = Background(lambda: channel.request("one", {}, on_result=count))
    request = fake.wait_for("one")
    fake.answer(request, {})
    fake.notify("process/started", processId="p", pid=1)
    call.result()
    recorder.wait_event()
    assert events_before == [0]


def test_notification_is_sent_without_an_id(channel: JsonChannel, fake: FakeServer) -> None:
    """And nobody waits for an answer."""
    channel.notify("process/ack", {"seq": 1})
    assert fake.wait_for("process/ack") == {"method": "process/ack", "params": {"seq": 1}}


def test_notification_from_the_server_is_an_event(channel: JsonChannel, fake: FakeServer, recorder: Recorder) -> None:
    """An unknown one before it is ignored, and so is an answer that nobody waits for."""
    fake.notify("something/new", x=1)
    fake.send({"id": 999, "result": {}})
    fake.send({"id": "text", "error": {}})
    fake.notify("process/started", processId="p", pid=5)
    assert recorder.wait_event() == ProcessStarted("p", 5)


def test_error_without_a_request(
    channel: JsonChannel, fake: FakeServer, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    """An error with id -1 is logged and told as an event; no call fails."""
    call = Background(lambda: channel.request("one", {}))
    request = fake.wait_for("one")
    with caplog.at_level(logging.ERROR):
        fake.send({"id": -1, "error": {"code": -32700, "message": "not JSON", "data": {"kind": "parseError"}}})
        event = recorder.wait_event()
    assert isinstance(event, ServerFault)
    assert (event.error.code, event.error.kind) == (-32700, "parseError")
    assert "not JSON" in caplog.text
    fake.answer(request, {})
    assert call.result() == {}


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"nonsense\n", JsonError),
        (b'"\xff"\n', JsonError),
        (b"[]\n", ProtocolError),
        (b'{"id": 1, "method": "ask", "params": {}}\n', ProtocolError),
        (b'{"method": "process/output", "params": {}}\n', ProtocolError),
    ],
)
def test_broken_rules_end_the_connection(
    channel: JsonChannel, fake: FakeServer, recorder: Recorder, data: bytes, error: type[ClosedError]
) -> None:
    """What a server must not send fails what waits, and all later calls, with an error that says so."""
    call = Background(lambda: channel.request("one", {}))
    fake.wait_for("one")
    fake.send_raw(data)
    with pytest.raises(error, match="exec-server transport closed"):
        call.result()
    with pytest.raises(error):
        channel.request("two", {})
    assert isinstance(recorder.wait_closed(), error)
    assert fake.ended.wait(WAIT)


def test_result_that_is_no_object_ends_the_connection(channel: JsonChannel, fake: FakeServer) -> None:
    """No caller has to expect one."""
    call = Background(lambda: channel.request("one", {}))
    fake.answer(fake.wait_for("one"), [])
    with pytest.raises(ProtocolError):
        call.result()


def test_lost_connection_fails_everything_at_once(channel: JsonChannel, fake: FakeServer, recorder: Recorder) -> None:
    """Each waiting call gets an error of its own; the end is told once."""
    calls = [Background(lambda: channel.request("one", {})) for _ in range(3)]
    fake.wait_for("one", 3)
    fake.die()
    for call in calls:
        with pytest.raises(ClosedError, match="^exec-server transport closed"):
            call.result()
    channel.close()
    assert len(recorder.errors) == 1


def test_request_is_registered_before_it_is_sent(channel: JsonChannel, fake: FakeServer) -> None:
    """An answer that is as quick as can be still finds its request: none of many is lost."""
    fake.handlers["quick"] = lambda message: {"n": message["params"]["n"]}
    assert [channel.request("quick", {"n": n}, timeout=WAIT)["n"] for n in range(300)] == list(range(300))


def test_close_ends_calls_and_the_connection(channel: JsonChannel, fake: FakeServer) -> None:
    """Who waits in another thread is told who closed."""
    call = Background(lambda: channel.request("one", {}))
    fake.wait_for("one")
    channel.close()
    channel.close()
    with pytest.raises(ClosedError, match="closed by this client"):
        call.result()
    assert fake.ended.wait(WAIT)


def test_close_frees_the_descriptors(fake: FakeServer, recorder: Recorder) -> None:
    """They belong to the channel."""
    descriptors = fake.descriptors()
    JsonChannel(StdioStream(*descriptors), recorder.on_event, recorder.on_closed).close()
    for fd in descriptors:
        with pytest.raises(OSError):
            os.fstat(fd)


def test_params_that_are_no_json_harm_nothing(channel: JsonChannel, fake: FakeServer) -> None:
    """The caller learns of it and nothing is sent."""
    with pytest.raises(TypeError):
        channel.request("bad", {"set": {1}})
    fake.handlers["good"] = lambda _: {}
    channel.request("good", {})
    assert fake.of("bad") == []


def test_server_that_neither_reads_nor_ends_is_cut_off(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing has an end even then."""
    monkeypatch.setattr("execsrv.client.channel.CLOSE_SECONDS", 0.2)
    ours, server = socket.socketpair()
    with server:
        read, write = ours.dup().detach(), ours.detach()
        channel = JsonChannel(StdioStream(read, write), recorder.on_event, recorder.on_closed)
        call = Background(lambda: channel.request("long", {"data": "x" * 10_000_000}))
        assert server.recv(1) == b"{"
        channel.close()
        with pytest.raises(ClosedError):
            call.result()
        for fd in (read, write):
            with pytest.raises(OSError):
                os.fstat(fd)
