"""Websocket frames to messages and back (RFC 6455 section 5), the server's side. No I/O."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from websockets.exceptions import ProtocolError
from websockets.frames import Close, CloseCode, Opcode
from websockets.frames import apply_mask as _apply_mask  # type: ignore[attr-defined]  # written in C, or Python's own

from execsrv.jsonrpc import Encoded

#: Whole frames, in parts that only have to be written one after the other.
Piece: TypeAlias = Sequence[bytes | memoryview]

#: Longest payload of a frame of ours, so that a pong need not wait long behind it.
FRAGMENT_BYTES = 1024 * 1024

#: Longest payload of a control frame (section 5.5).
MAX_CONTROL_BYTES = 125

#: Longest header of a masked frame: two bytes, a 64-bit length, the mask.
MAX_HEADER_BYTES = 14

_CONTROL_BIT = 0x08
_FIN_BIT = 0x80
_OPCODES = frozenset(Opcode)


class FrameError(Exception):
    """The peer broke the rules: the connection is to be closed with ``code`` (section 7.4)."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


class FrameHeader(NamedTuple):
    """What stands before a payload; ``size`` is its own length in bytes."""

    size: int
    fin: bool
    opcode: int
    length: int
    mask: bytes


class Event(NamedTuple):
    """A whole message (opcode TEXT or BINARY) or a control frame (CLOSE, PING, PONG)."""

    opcode: int
    payload: bytes


def parse_header(data: bytes) -> FrameHeader | None:
    """The header that ``data`` begins with; None when there is too little of it. Raises FrameError."""
    if len(data) < 2:
        return None
    first, second = data[0], data[1]
    opcode, length = first & 0x0F, second & 0x7F
    _check_bits(first, second)
    extended = {126: 2, 127: 8}.get(length, 0)
    size = 2 + extended + 4
    if len(data) < size:
        return None
    if extended:
        length = int.from_bytes(data[2 : 2 + extended])
    return FrameHeader(size, bool(first & _FIN_BIT), opcode, length, data[size - 4 : size])


def _check_bits(first: int, second: int) -> None:
    opcode = first & 0x0F
    if first & 0x70:
        raise FrameError(CloseCode.PROTOCOL_ERROR, "reserved bits are set")
    if opcode not in _OPCODES:
        raise FrameError(CloseCode.PROTOCOL_ERROR, f"reserved opcode {opcode}")
    if not second & 0x80:
        raise FrameError(CloseCode.PROTOCOL_ERROR, "a client's frame is not masked")
    if opcode & _CONTROL_BIT and (not first & _FIN_BIT or second & 0x7F > MAX_CONTROL_BYTES):
        raise FrameError(CloseCode.PROTOCOL_ERROR, "a control frame is fragmented or too long")


class Decoder:
    """Turns the bytes of a peer into events. Holds one message up to its limit, and what was fed last."""

    def __init__(self, max_message_bytes: int) -> None:
        self._max_message_bytes = max_message_bytes
        self._input = b""
        self._at = 0
        self._header: FrameHeader | None = None  # of the frame whose payload comes in
        self._done = 0  # bytes of that payload that were taken
        self._opcode: int | None = None  # of the message whose frames come in
        self._message = bytearray()

    def feed(self, data: bytes) -> None:
        """Add what was read. Call it when ``next_event`` gave None, so that no input heaps up."""
        self._input = self._input[self._at :] + data
        self._at = 0

    def next_event(self) -> Event | None:
        """The next event; None when more bytes are needed. Raises FrameError, after which nothing more comes.

        A message above the limit is an error (close code 1009) as soon as a header tells of it.
        """
        while True:
            header = self._header or self._begin_frame()
            if header is None:
                return None
            if header.opcode & _CONTROL_BIT:
                return self._take_control(header)
            if not self._take_payload(header):
                return None
            if header.fin:
                return self._end_message()

    def _begin_frame(self) -> FrameHeader | None:
        header = parse_header(self._input[self._at : self._at + MAX_HEADER_BYTES])
        if header is None:
            return None
        if not header.opcode & _CONTROL_BIT:
            self._check_order(header.opcode)
            if len(self._message) + header.length > self._max_message_bytes:
                raise FrameError(CloseCode.MESSAGE_TOO_BIG, f"a message exceeds {self._max_message_bytes} bytes")
        self._at += header.size
        self._header, self._done = header, 0
        return header

    def _check_order(self, opcode: int) -> None:
        if (opcode == Opcode.CONT) != (self._opcode is not None):
            raise FrameError(CloseCode.PROTOCOL_ERROR, "frames of a message are out of order")
        if opcode != Opcode.CONT:
            self._opcode = opcode

    def _take_control(self, header: FrameHeader) -> Event | None:
        """A control frame comes whole, and may stand between the frames of a message."""
        end = self._at + header.length
        if len(self._input) < end:
            return None
        payload = _apply_mask(self._input[self._at : end], header.mask)
        self._at, self._header = end, None
        return Event(header.opcode, payload)

    def _take_payload(self, header: FrameHeader) -> bool:
        """Take what there is of a message's frame; is it whole?"""
        piece = self._input[self._at : self._at + header.length - self._done]
        turn = self._done % 4
        self._message += _apply_mask(piece, header.mask[turn:] + header.mask[:turn])
        self._at += len(piece)
        self._done += len(piece)
        if self._done < header.length:
            return False
        self._header = None
        return True

    def _end_message(self) -> Event:
        assert self._opcode is not None  # set by the message's first frame
        event = Event(self._opcode, bytes(self._message))
        self._opcode, self._message = None, bytearray()
        return event


def encode(messages: Sequence[Encoded]) -> Iterator[Piece]:
    """The frames of these text messages in pieces to be written; between two pieces a control frame may go.

    Small messages share a piece, one above FRAGMENT_BYTES is cut; a piece is shorter than twice FRAGMENT_BYTES.
    """
    piece: list[bytes | memoryview] = []
    size = 0
    for message in messages:
        for frame in _frames(message):
            piece += frame
            size += sum(map(len, frame))
            if size >= FRAGMENT_BYTES:
                yield piece
                piece, size = [], 0
    if piece:
        yield piece


def _frames(message: Encoded) -> Iterator[Piece]:
    """The frames of one message: a header and a payload each."""
    if message.size <= FRAGMENT_BYTES:
        yield [_header(Opcode.TEXT, message.size, fin=True), *message.parts]
        return
    opcode, left = Opcode.TEXT, message.size
    for payload in _cut(message.parts):
        size = sum(map(len, payload))
        left -= size
        yield [_header(opcode, size, fin=not left), *payload]
        opcode = Opcode.CONT


def _cut(parts: Sequence[bytes]) -> Iterator[Piece]:
    """The same bytes in payloads of FRAGMENT_BYTES, the last one shorter."""
    payload: list[memoryview] = []
    room = FRAGMENT_BYTES
    for part in parts:
        left = memoryview(part)
        while len(left) >= room:
            yield [*payload, left[:room]]
            left, payload, room = left[room:], [], FRAGMENT_BYTES
        payload.append(left)
        room -= len(left)
    if room < FRAGMENT_BYTES:
        yield payload


def control_frame(opcode: Opcode, payload: bytes = b"") -> bytes:
    """A frame of at most MAX_CONTROL_BYTES of payload."""
    return _header(opcode, len(payload), fin=True) + payload


def close_frame(code: int) -> bytes:
    """A close frame without words."""
    return control_frame(Opcode.CLOSE, Close(code, "").serialize())


def reply_code(payload: bytes) -> int:
    """The code with which to answer a peer's close frame: its own, or what is wrong with it (section 7.4)."""
    try:
        code = Close.parse(payload).code
    except ProtocolError:
        return CloseCode.PROTOCOL_ERROR
    except UnicodeDecodeError:
        return CloseCode.INVALID_DATA
    return CloseCode.NORMAL_CLOSURE if code == CloseCode.NO_STATUS_RCVD else code


def _header(opcode: int, length: int, fin: bool) -> bytes:
    """What stands before an unmasked payload of ``length`` bytes (section 5.2)."""
    first = opcode | (_FIN_BIT if fin else 0)
    if length < 126:
        return bytes((first, length))
    return struct.pack("!BBH", first, 126, length) if length < 65536 else struct.pack("!BBQ", first, 127, length)
