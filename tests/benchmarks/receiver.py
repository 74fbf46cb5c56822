"""Websocket messages out of a socket (RFC 6455, section 5), quickly enough for the fastest server.

They are found in one large buffer, and nothing is copied that need not be.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import NamedTuple

#: What is read ahead. A longer frame is put together elsewhere.
BUFFER_BYTES = 1024 * 1024

#: Room for the longest message that comes.
LONG_BYTES = 64 * 1024 * 1024

_FINAL, _OPCODE, _PING, _CLOSE = 0x80, 0x0F, 0x9, 0x8


class PeerError(Exception):
    """The server ended the connection, said nothing for too long, or answered with an error."""


class Message(NamedTuple):
    """The bytes of ``data`` from ``begin`` to ``end``, until the next message is asked for."""

    data: bytearray
    begin: int
    end: int


class Receiver:
    """Takes messages from a socket of which SO_RCVTIMEO limits the wait for each piece.

    before_receive: called before each look at the socket; may wait until it is time for it.
    receive_bytes: most bytes taken at once.
    received_bytes: how many were taken so far.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.before_receive: Callable[[], object] | None = None
        self.receive_bytes = BUFFER_BYTES
        self.received_bytes = 0
        self._socket = sock
        self._buffer = bytearray(BUFFER_BYTES)
        self._begin = self._end = 0  # what of it was received and not taken
        self._long = bytearray()
        self._long_end = 0

    @property
    def is_empty(self) -> bool:
        """Is everything taken that was received?"""
        return self._begin == self._end

    def next(self) -> Message:
        """The next message, waited for; pings are answered. Raises PeerError at the end of the connection."""
        while True:
            first, size = self._take_header()
            if first & _OPCODE >= _CLOSE:
                self._take_control(first & _OPCODE, size)
            elif size > BUFFER_BYTES or not first & _FINAL or self._long_end:
                self._take_long(size)
                if first & _FINAL:
                    end, self._long_end = self._long_end, 0
                    return Message(self._long, 0, end)
            else:
                self._need(size)
                begin = self._begin
                self._begin += size
                return Message(self._buffer, begin, begin + size)

    def _take_header(self) -> tuple[int, int]:
        """The first byte of a frame, and the length of its payload, which comes next."""
        self._need(2)
        first, size = self._buffer[self._begin], self._buffer[self._begin + 1]
        self._begin += 2
        return first, (size if size < 126 else self._take_integer(2 if size == 126 else 8))

    def _take_integer(self, size: int) -> int:
        self._need(size)
        self._begin += size
        return int.from_bytes(self._buffer[self._begin - size : self._begin])

    def _need(self, size: int) -> None:
        """Have so many bytes in the buffer."""
        if self._begin + size > BUFFER_BYTES:
            rest = self._end - self._begin
            self._buffer[:rest] = self._buffer[self._begin : self._end]
            self._begin, self._end = 0, rest
        while self._end - self._begin < size:
            if self._begin == self._end:
                self._begin = self._end = 0
            self._end += self._receive_into(self._buffer, self._end, BUFFER_BYTES)

    def _take_long(self, size: int) -> None:
        """Put the payload of a frame behind what ``_long`` holds already of a message."""
        self._long = self._long or bytearray(LONG_BYTES)
        at, end = self._long_end, self._long_end + size
        held = min(size, self._end - self._begin)
        self._long[at : at + held] = self._buffer[self._begin : self._begin + held]
        self._begin += held
        at += held
        while at < end:
            at += self._receive_into(self._long, at, end)
        self._long_end = end

    def _receive_into(self, target: bytearray, begin: int, end: int) -> int:
        if self.before_receive:
            self.before_receive()
        with memoryview(target) as view:
            try:
                size = self._socket.recv_into(view[begin : min(end, begin + self.receive_bytes)])
            except BlockingIOError:
                raise PeerError("the server is silent") from None
        if not size:
            raise PeerError("the server ended the connection")
        self.received_bytes += size
        return size

    def _take_control(self, opcode: int, size: int) -> None:
        self._need(size)
        payload = bytes(self._buffer[self._begin : self._begin + size])
        self._begin += size
        if opcode == _CLOSE:
            raise PeerError(f"the server closes the connection: {payload!r}")
        if opcode == _PING:
            self._socket.sendall(bytes((0x8A, 0x80 | size, 0, 0, 0, 0)) + payload)
