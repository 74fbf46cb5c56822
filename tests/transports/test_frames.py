"""Frames to events and messages to frames, by the letter of RFC 6455."""

from __future__ import annotations

import os
import tracemalloc

import pytest
from transport_peers import as_messages, masked
from websockets.frames import CloseCode, Frame, Opcode

from execsrv.jsonrpc import Encoded
from execsrv.transports import frames
from execsrv.transports.frames import (
    FRAGMENT_BYTES,
    Decoder,
    Event,
    FrameError,
    close_frame,
    control_frame,
    encode,
    parse_header,
    reply_code,
)

LIMIT = 100_000


def events(stream: bytes, size: int = 0, limit: int = LIMIT) -> list[Event]:
    """All events of a stream that comes in pieces of ``size`` bytes."""
    decoder, found = Decoder(limit), []
    for at in range(0, len(stream), size or len(stream)):
        decoder.feed(stream[at : at + (size or len(stream))])
        while event := decoder.next_event():
            found.append(event)
    return found


def failure(stream: bytes, limit: int = LIMIT) -> int:
    """The close code that a stream deserves."""
    with pytest.raises(FrameError) as caught:
        events(stream, limit=limit)
    return caught.value.code


@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 8, 13, 1000])
def test_events_do_not_depend_on_how_the_bytes_come(size: int) -> None:
    """Messages of every length class, fragments, empty ones and control frames in between."""
    long, longer = os.urandom(300), os.urandom(70_001)
    stream = (
        masked(b"text")
        + masked(b"")
        + masked(long, Opcode.BINARY)
        + masked(b"frag", fin=False)
        + masked(b"ping", Opcode.PING)
        + masked(b"", Opcode.CONT, fin=False)
        + masked(b"mented", Opcode.CONT)
        + masked(longer)
        + masked(b"", Opcode.PONG)
        + masked(b"\x03\xe8bye", Opcode.CLOSE)
    )
    assert events(stream, size) == [
        Event(Opcode.TEXT, b"text"),
        Event(Opcode.TEXT, b""),
        Event(Opcode.BINARY, long),
        Event(Opcode.PING, b"ping"),
        Event(Opcode.TEXT, b"fragmented"),
        Event(Opcode.TEXT, longer),
        Event(Opcode.PONG, b""),
        Event(Opcode.CLOSE, b"\x03\xe8bye"),
    ]


def test_text_need_not_be_utf8() -> None:
    """The reader of the message judges that."""
    assert events(masked(b"\xff\xfe")) == [Event(Opcode.TEXT, b"\xff\xfe")]


@pytest.mark.parametrize(
    "stream",
    [
        b"\x81\x01x",  # no mask
        b"\x89\x00",
        b"\xc1\x80\0\0\0\0",  # reserved bits
        b"\xa1\x80\0\0\0\0",
        b"\x91\x80\0\0\0\0",
        b"\x83\x80\0\0\0\0",  # reserved opcodes
        b"\x8b\x80\0\0\0\0",
        b"\x09\x80\0\0\0\0",  # a control frame in fragments
        b"\x89\xfe\0\x7e\0\0\0\0" + bytes(126),  # and one that is too long
        masked(b"x", Opcode.CONT),  # nothing to continue
        masked(b"x", fin=False) + masked(b"y"),  # a message within a message
        masked(b"x") + masked(b"y", Opcode.CONT),
    ],
)
def test_broken_rules_are_protocol_errors(stream: bytes) -> None:
    """Close code 1002."""
    assert failure(stream) == CloseCode.PROTOCOL_ERROR


def test_the_limit_is_for_the_whole_message() -> None:
    """The limit itself passes, one byte more does not, in one frame or in many."""
    assert events(masked(b"x" * 10), limit=10) == [Event(Opcode.TEXT, b"x" * 10)]
    assert failure(masked(b"x" * 11), limit=10) == CloseCode.MESSAGE_TOO_BIG
    halves = masked(b"x" * 6, fin=False) + masked(b"x" * 5, Opcode.CONT)
    assert failure(halves, limit=10) == CloseCode.MESSAGE_TOO_BIG


@pytest.mark.parametrize("length", [LIMIT + 1, 1 << 62, (1 << 64) - 1])
def test_a_header_is_enough_to_refuse(length: int) -> None:
    """No payload is waited for, nor room made for it."""
    assert failure(b"\x81\xff" + length.to_bytes(8) + bytes(4)) == CloseCode.MESSAGE_TOO_BIG


def test_many_fragments_take_no_more_room_than_one_frame() -> None:
    """A message in two-byte frames is held as its bytes."""
    stream = masked(b"", fin=False) + masked(b"xy", Opcode.CONT, fin=False) * 100
    decoder = Decoder(10_000_000)
    decoder.feed(stream)
    tracemalloc.start()
    for _ in range(500):
        assert decoder.next_event() is None
        decoder.feed(stream[-800:])
    held = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, frames.__file__)])
    tracemalloc.stop()
    assert sum(trace.size for trace in held.traces) < 1_000_000


def test_a_header_comes_whole_or_not_at_all() -> None:
    """Every shorter beginning asks for more."""
    frame = masked(bytes(70_000))
    header = parse_header(frame[:14])
    assert header and (header.size, header.fin, header.opcode, header.length) == (14, True, Opcode.TEXT, 70_000)
    assert [parse_header(frame[:size]) for size in range(14)] == [None] * 14


# ---- out -------------------------------------------------------------------------------------------------------------


def frames_of(data: bytes) -> list[tuple[int, int, int]]:
    """First byte, offset of the payload and its length of each of our frames."""
    found, at = [], 0
    while at < len(data):
        length, start = data[at + 1], at + 2
        if length > 125:
            size = 2 if length == 126 else 8
            length, start = int.from_bytes(data[start : start + size]), start + size
        found.append((data[at], start, length))
        at = start + length
    return found


def pieces_of(*messages: bytes) -> list[bytes]:
    """What these messages are sent as."""
    return [b"".join(piece) for piece in encode(as_messages(*messages))]


def test_small_messages_share_a_piece() -> None:
    """One write for all of them, a frame each."""
    assert pieces_of(b"a", b"", b"x" * 200) == [b"\x81\x01a\x81\x00\x81\x7e\x00\xc8" + b"x" * 200]
    assert pieces_of() == []


@pytest.mark.parametrize("size", [125, 126, 65535, 65536])
def test_the_length_is_written_as_short_as_can_be(size: int) -> None:
    """Which the RFC demands (section 5.2)."""
    message = os.urandom(size)
    assert pieces_of(message) == [Frame(Opcode.TEXT, message).serialize(mask=False)]


def test_a_long_message_is_cut() -> None:
    """Fragments of at most FRAGMENT_BYTES, a piece each, which make up the message."""
    message = os.urandom(2 * FRAGMENT_BYTES + 5)
    pieces = pieces_of(message)
    found = [frames_of(piece) for piece in pieces]
    assert [[(first, length) for first, _, length in piece] for piece in found] == [
        [(0x01, FRAGMENT_BYTES)],
        [(0x00, FRAGMENT_BYTES)],
        [(0x80, 5)],
    ]
    payloads = [piece[start:] for piece, [(_, start, _)] in zip(pieces, found)]
    assert b"".join(payloads) == message


@pytest.mark.parametrize("cuts", [[FRAGMENT_BYTES], [1, FRAGMENT_BYTES + 1], [5, 2 * FRAGMENT_BYTES], [7, 7, 9]])
def test_a_message_in_parts_is_cut_like_a_whole_one(cuts: list[int]) -> None:
    """Wherever its parts end."""
    message = os.urandom(2 * FRAGMENT_BYTES + 5)
    parts = [message[start:end] for start, end in zip([0, *cuts], [*cuts, len(message)])]
    assert [b"".join(piece) for piece in encode([Encoded(*parts)])] == pieces_of(message)


@pytest.mark.parametrize("size", [FRAGMENT_BYTES - 1, FRAGMENT_BYTES, FRAGMENT_BYTES + 1])
def test_pieces_are_bounded(size: int) -> None:
    """However messages of about that size are joined, each frame is whole within a piece."""
    pieces = pieces_of(*[bytes(size)] * 5, b"x")
    assert all(len(piece) < 2 * FRAGMENT_BYTES for piece in pieces)
    frames = [frame for piece in pieces for frame in frames_of(piece)]
    assert sum(length for _, _, length in frames) == 5 * size + 1
    assert sum(first & 0x80 for first, _, _ in frames) == 6 * 0x80


def test_control_frames() -> None:
    """Short, final, unmasked."""
    assert control_frame(Opcode.PONG, b"abc") == b"\x8a\x03abc"
    assert close_frame(1009) == b"\x88\x02\x03\xf1"


@pytest.mark.parametrize(
    "payload, code",
    [
        (b"", 1000),
        (b"\x03\xe8", 1000),
        (b"\x03\xe9going", 1001),
        (b"\x0f\xa0", 4000),
        (b"\x03", 1002),  # half a code
        (b"\x03\xed", 1002),  # 1005 and 999 never travel
        (b"\x03\xe7", 1002),
        (b"\x03\xe8\xff", 1007),
    ],
)
def test_a_close_is_echoed_or_blamed(payload: bytes, code: int) -> None:
    """The peer's own code comes back, unless its frame was wrong."""
    assert reply_code(payload) == code
