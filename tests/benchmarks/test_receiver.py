"""Messages are found however they come in."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from .receiver import BUFFER_BYTES, PeerError, Receiver

FINAL, TEXT, PING, CLOSE = 0x80, 1, 9, 8


@pytest.fixture
def ends() -> Iterator[tuple[Receiver, socket.socket]]:
    """A receiver, and the socket of its server."""
    ours, its = socket.socketpair()
    for end in (ours, its):
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            end.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", 10, 0))
    with ours, its:
        yield Receiver(ours), its


def frame(payload: bytes, first: int = FINAL | TEXT) -> bytes:
    """A server's frame."""
    size = len(payload)
    if size < 126:
        return struct.pack("!BB", first, size) + payload
    return (struct.pack("!BBH", first, 126, size) if size < 65536 else struct.pack("!BBQ", first, 127, size)) + payload


def take(receiver: Receiver) -> bytes:
    """The next message."""
    data, begin, end = receiver.next()
    return bytes(data[begin:end])


@pytest.mark.parametrize("size", [0, 125, 126, 65535, 65536, BUFFER_BYTES - 1, BUFFER_BYTES, BUFFER_BYTES + 1])
def test_a_message_of_any_size_is_found(ends: tuple[Receiver, socket.socket], size: int) -> None:
    """Between two others, with all lengths of header, in the buffer and beyond it."""
    receiver, server = ends
    payload = bytes(n % 251 for n in range(1000)) * (size // 1000 + 1)
    messages = [b"before", payload[:size], b"after"]
    sending = threading.Thread(target=server.sendall, args=(b"".join(map(frame, messages)),))
    sending.start()
    assert [take(receiver) for _ in messages] == messages
    assert receiver.is_empty
    sending.join(10)


def test_a_message_may_come_byte_by_byte(ends: tuple[Receiver, socket.socket]) -> None:
    """Also its header."""
    receiver, server = ends
    receiver.receive_bytes = 1
    server.sendall(frame(bytes(300)) + frame(b"after"))
    assert [take(receiver), take(receiver)] == [bytes(300), b"after"]


def test_fragments_become_one_message_and_pings_between_them_are_answered(
    ends: tuple[Receiver, socket.socket],
) -> None:
    """With the ping's own payload, masked by zeros."""
    receiver, server = ends
    server.sendall(frame(b"one ", TEXT) + frame(b"hey", FINAL | PING) + frame(b"two ", 0) + frame(b"three", FINAL))
    server.sendall(frame(b"after"))
    assert [take(receiver), take(receiver)] == [b"one two three", b"after"]
    assert server.recv(100) == b"\x8a\x83\0\0\0\0hey"


@pytest.mark.parametrize("last", [b"", frame(b"\x03\xe8", FINAL | CLOSE)])
def test_the_end_of_the_connection_is_told(ends: tuple[Receiver, socket.socket], last: bytes) -> None:
    """With a close frame or without; what came before is given first."""
    receiver, server = ends
    server.sendall(frame(b"last") + last)
    server.close()
    assert take(receiver) == b"last"
    with pytest.raises(PeerError):
        receiver.next()
