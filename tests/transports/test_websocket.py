"""The websocket transport, over real connections."""

from __future__ import annotations

import os
import queue
import socket
import struct
from collections.abc import Callable

import gevent
import pytest
from gevent.event import Event
from transport_peers import PATIENCE, HubThread, RawClient, Server, as_messages, masked, nothing
from websockets.exceptions import ConnectionClosedError
from websockets.frames import Opcode
from websockets.sync.client import connect as connect_properly

from execsrv.config import MIB, ExecServerConfig
from execsrv.transports import Transport, TransportClosed

Start = Callable[..., Server]
Connect = Callable[..., RawClient]

#: More than the kernel takes for a peer that does not read.
FLOOD = bytes(24 * MIB)


# ---- in --------------------------------------------------------------------------------------------------------------


def test_messages_of_a_real_client_arrive(start_server: Start) -> None:
    """Text, binary, fragments and a long one, as bytes."""
    server = start_server()
    long = os.urandom(2 * MIB)
    with connect_properly(server.url) as client:
        client.send("text \N{SNOWMAN}")
        client.send(b"binary")
        client.send(["in ", "three ", "parts"])
        client.send(long)
        got = [server.message() for _ in range(4)]
    assert got == ["text \N{SNOWMAN}".encode(), b"binary", b"in three parts", long]
    assert server.message() is None


def test_what_comes_together_with_the_handshake_is_not_lost(start_server: Start, connect: Connect) -> None:
    """A client that does not wait for the answer."""
    server = start_server()
    client = connect(server)
    second = masked(b"second")
    assert client.request(rest=masked(b"first") + second[:4]) == 101
    client.socket.sendall(second[4:])
    assert [server.message(), server.message()] == [b"first", b"second"]


def test_text_that_is_no_utf8_is_given_on(start_server: Start, connect: Connect) -> None:
    """The reader of the message answers it; the connection goes on."""
    server = start_server()
    client = connect(server).upgraded()
    client.send(b"\xff\xfe")
    client.send(b"next")
    assert [server.message(), server.message()] == [b"\xff\xfe", b"next"]


@pytest.mark.parametrize("bad", [b"\x81\x01x", b"\xc1\x80\0\0\0\0", masked(b"x", Opcode.CONT)])
def test_a_broken_rule_closes_with_1002(start_server: Start, connect: Connect, bad: bytes) -> None:
    """And the server's side ends."""
    server = start_server()
    client = connect(server).upgraded()
    client.socket.sendall(masked(b"good") + bad)
    assert client.close_code() == 1002
    assert client.is_at_end()
    assert [server.message(), server.message()] == [b"good", None]


def test_a_message_above_the_limit_closes_with_1009(start_server: Start) -> None:
    """A proper client in the middle of sending it reads why."""
    server = start_server(config=ExecServerConfig(max_message_bytes=MIB))
    with connect_properly(server.url) as client:
        client.send(bytes(MIB))
        assert server.message() == bytes(MIB)
        with pytest.raises(ConnectionClosedError) as caught:
            client.send(FLOOD)
            client.recv(PATIENCE)
    assert caught.value.rcvd is not None and caught.value.rcvd.code == 1009
    assert server.message() is None


def test_a_refused_sender_is_not_reset(start_server: Start, connect: Connect) -> None:
    """What it still sends after our close frame is taken for a moment, so that it can read the frame."""
    client = connect(start_server(config=ExecServerConfig(max_message_bytes=10))).upgraded()
    client.send(bytes(11))
    assert client.close_code() == 1009
    client.socket.sendall(FLOOD)
    client.socket.shutdown(socket.SHUT_WR)
    assert client.file.read() == b""


@pytest.mark.parametrize("payload, code", [(b"\x03\xe8bye", 1000), (b"", 1000), (b"\x0f\xa0", 4000), (b"\0\0", 1002)])
def test_a_close_frame_is_echoed(start_server: Start, connect: Connect, payload: bytes, code: int) -> None:
    """Then the stream ends on both sides."""
    server = start_server()
    client = connect(server).upgraded()
    client.send(payload, Opcode.CLOSE)
    assert client.close_code() == code
    assert client.is_at_end()
    assert server.message() is None


def test_the_end_of_the_stream_is_the_end(start_server: Start, connect: Connect) -> None:
    """Without a close frame, in the middle of a message."""
    server = start_server()
    client = connect(server).upgraded()
    client.socket.sendall(masked(b"half")[:-1])
    client.socket.shutdown(socket.SHUT_WR)
    assert server.message() is None


def test_a_reset_is_the_end(start_server: Start, connect: Connect, hub: HubThread) -> None:
    """Receiving ends, sending fails."""
    server = start_server()
    client = connect(server).upgraded()
    client.send(b"here")
    assert server.message() == b"here"
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    assert server.message() is None
    with pytest.raises(TransportClosed):
        hub.call(server.transport().send, as_messages(b"x"))


# ---- out -------------------------------------------------------------------------------------------------------------


def test_messages_to_a_real_client_arrive(start_server: Start, hub: HubThread) -> None:
    """Many small ones and one in fragments, as text."""
    server = start_server()
    long = os.urandom(2 * MIB).hex()
    with connect_properly(server.url, max_size=None) as client:
        sent = hub.submit(server.transport().send, as_messages(b"one", b"", b"two", long.encode(), b"three"))
        assert [client.recv(PATIENCE) for _ in range(5)] == ["one", "", "two", long, "three"]
        sent.result(PATIENCE)


def payloads_until(client: RawClient, end: bytes) -> bytes:
    """The payloads of the frames that come, up to one with this ``end``."""
    got = b""
    while not got.endswith(end):
        frame = client.frame()
        assert frame
        got += frame[2]
    return got


def test_messages_are_sent_at_once_as_far_as_they_fit(start_server: Start, connect: Connect, hub: HubThread) -> None:
    """And the rest by the next send, before what that is given."""
    server = start_server()
    client = connect(server).upgraded()
    transport = server.transport()
    assert hub.call(transport.send_now, as_messages(b"one", b"two"))
    assert [client.frame() for _ in range(2)] == [(True, Opcode.TEXT, b"one"), (True, Opcode.TEXT, b"two")]
    assert not hub.call(transport.send_now, as_messages(FLOOD))
    sent = hub.submit(transport.send, as_messages(b"last"))
    assert payloads_until(client, b"last") == FLOOD + b"last"
    sent.result(PATIENCE)


def test_nothing_is_sent_at_once_while_something_else_is_written(
    start_server: Start, connect: Connect, hub: HubThread
) -> None:
    """A message that was begun is ended first."""
    server = start_server()
    client = connect(server).upgraded()
    transport = server.transport()
    sent = hub.submit(transport.send, as_messages(FLOOD))
    client.file.peek()  # it has begun
    assert not hub.call(transport.send_now, as_messages(b"after"))
    assert payloads_until(client, b"after") == FLOOD + b"after"
    sent.result(PATIENCE)


def test_nothing_is_sent_at_once_on_a_closed_connection(start_server: Start, connect: Connect, hub: HubThread) -> None:
    """The next send tells that it is."""
    server = start_server()
    connect(server).upgraded()
    transport = server.transport()
    hub.call(transport.close)
    assert not hub.call(transport.send_now, as_messages(b"x"))
    with pytest.raises(TransportClosed):
        hub.call(transport.send, [])


def test_it_is_told_before_it_waits(start_server: Start, connect: Connect) -> None:
    """And only when no message is left of what has come."""
    seen: queue.Queue[str | bytes | None] = queue.Queue()

    def serve(transport: Transport) -> None:
        message: bytes | None = b"start"
        while message is not None:
            message = transport.receive(lambda: seen.put("wait"))
            seen.put(message)

    client = connect(start_server(serve=serve)).upgraded()
    assert seen.get(timeout=PATIENCE) == "wait"
    client.socket.sendall(masked(b"one") + masked(b"two"))
    assert [seen.get(timeout=PATIENCE) for _ in range(3)] == [b"one", b"two", "wait"]
    client.close()
    assert seen.get(timeout=PATIENCE) is None


def test_a_stuck_send_blocks_neither_reading_nor_pongs(start_server: Start, connect: Connect, hub: HubThread) -> None:
    """Messages still come in; the latest ping is answered between two fragments."""
    server = start_server()
    client = connect(server).upgraded()
    sent = hub.submit(server.transport().send, as_messages(FLOOD))
    client.file.peek()  # it has begun
    for payload in (b"first", b"second", b"last"):
        client.send(payload, Opcode.PING)
    client.send(b"heard")
    assert server.message() == b"heard"
    frames: list[tuple[bool, int, bytes]] = []
    while not frames or frames[-1][:2] != (True, Opcode.CONT):
        frame = client.frame()
        assert frame
        frames.append(frame)
    assert (True, Opcode.PONG, b"last") in frames
    assert sum(len(payload) for _, opcode, payload in frames if opcode != Opcode.PONG) == len(FLOOD)
    assert max(len(payload) for _, _, payload in frames) <= MIB
    sent.result(PATIENCE)


def test_a_ping_is_answered_when_nothing_else_is_sent(start_server: Start, connect: Connect) -> None:
    """With its own payload; a pong is ignored."""
    client = connect(start_server()).upgraded()
    client.send(b"unasked", Opcode.PONG)
    client.send(b"are you there", Opcode.PING)
    assert client.frame() == (True, Opcode.PONG, b"are you there")


def test_a_killed_send_spoils_the_stream(start_server: Start, connect: Connect, hub: HubThread) -> None:
    """Nothing may follow half a frame."""
    server = start_server()
    client = connect(server).upgraded()
    transport = server.transport()

    def send_and_be_killed() -> None:
        sender = gevent.spawn(transport.send, as_messages(FLOOD))
        while transport._sink.waiting_since is None:  # type: ignore[attr-defined]
            gevent.sleep(0)
        sender.kill()

    hub.call(send_and_be_killed)
    with pytest.raises(TransportClosed):
        hub.call(transport.send, as_messages(b"x"))
    client.close()


# ---- close -----------------------------------------------------------------------------------------------------------


def test_close_says_goodbye_and_wakes_the_receiver(start_server: Start, connect: Connect, hub: HubThread) -> None:
    """Code 1001, then the end; a second close and later calls are harmless."""
    server = start_server()
    client = connect(server).upgraded()
    transport = server.transport()
    hub.call(transport.close)
    assert server.message() is None
    assert client.close_code() == 1001
    assert client.is_at_end()
    hub.call(transport.close)
    assert hub.call(transport.receive, nothing) is None
    with pytest.raises(TransportClosed):
        hub.call(transport.send, as_messages(b"x"))


def test_close_cuts_a_long_message_off(start_server: Start, connect: Connect, hub: HubThread) -> None:
    """The goodbye goes between two fragments of it."""
    server = start_server()
    client = connect(server).upgraded()
    transport = server.transport()
    sent = hub.submit(transport.send, as_messages(FLOOD))
    client.file.peek()
    hub.submit(transport.close)
    while not hub.call(getattr, transport, "closed"):
        pass
    assert client.close_code() == 1001
    with pytest.raises(TransportClosed):
        sent.result(PATIENCE)


def test_close_wakes_a_stuck_send(start_server: Start, connect: Connect, hub: HubThread) -> None:
    """The peer reads nothing, so no goodbye can be said."""
    server = start_server()
    client = connect(server).upgraded()
    transport = server.transport()
    sent = hub.submit(transport.send, as_messages(FLOOD))
    client.file.peek()
    hub.call(transport.close)
    assert server.message() is None
    with pytest.raises(TransportClosed):
        sent.result(PATIENCE)


def test_the_peer_may_leave_while_we_close(start_server: Start, connect: Connect, hub: HubThread) -> None:
    """The socket is not closed under the send that is still stuck; the server lives on."""
    server = start_server()
    client = connect(server).upgraded()
    transport = server.transport()
    sent = hub.submit(transport.send, as_messages(FLOOD))
    client.file.peek()
    closed = hub.submit(transport.close)
    client.socket.shutdown(socket.SHUT_WR)
    assert server.message() is None
    closed.result(PATIENCE)
    with pytest.raises(TransportClosed):
        sent.result(PATIENCE)
    assert connect(server).request() == 101


# ---- heartbeat -------------------------------------------------------------------------------------------------------


def answer_pings(client: RawClient, count: int) -> None:
    """Answer so many pings."""
    while count:
        frame = client.frame()
        assert frame
        if frame[1] == Opcode.PING:
            client.send(frame[2], Opcode.PONG)
            count -= 1


def wait_for_a_death(server: Server, connect: Connect) -> None:
    """Connect without ever answering a ping, and wait until that is the end."""
    client = connect(server).upgraded()
    while client.frame():
        pass


def test_a_silent_peer_is_dead_and_an_answering_one_lives(start_server: Start, connect: Connect) -> None:
    """The one gets an end without a close frame; the other may be quiet as long as it likes."""
    server = start_server(ping_interval=0.05)
    client = connect(server).upgraded()
    answer_pings(client, 6)
    client.send(b"alive")
    assert server.message() == b"alive"
    assert client.close_code() is None
    assert server.message() is None


def test_a_peer_that_does_not_read_is_not_judged(start_server: Start, connect: Connect, hub: HubThread) -> None:
    """It outlives one that is silent, and goes on."""
    server = start_server(ping_interval=0.05)
    client = connect(server).upgraded()
    sent = hub.submit(server.transport().send, as_messages(FLOOD))
    client.file.peek()
    wait_for_a_death(server, connect)
    assert server.message() is None
    assert not sent.done()
    while (frame := client.frame()) and frame[:2] != (True, Opcode.CONT):
        pass
    sent.result(PATIENCE)
    client.send(b"alive")
    assert server.message() == b"alive"


def test_while_nobody_receives_nobody_is_judged(start_server: Start, connect: Connect, hub: HubThread) -> None:
    """The owner of the connection does not read: the peer's answers can't be seen."""
    go_on = hub.call(Event)
    served: list[Transport] = []

    def serve(transport: Transport) -> None:
        served.append(transport)
        if len(served) == 1:
            go_on.wait()
        while (message := transport.receive(nothing)) is not None:
            server.received.put(message)

    server = start_server(serve=serve, ping_interval=0.05)
    client = connect(server).upgraded()
    assert server.transport()
    wait_for_a_death(server, connect)
    hub.call(go_on.set)
    client.send(b"alive")
    assert server.message() == b"alive"
