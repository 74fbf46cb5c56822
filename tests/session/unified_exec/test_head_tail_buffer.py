"""Tests of execsrv.session.unified_exec.head_tail_buffer."""

from __future__ import annotations

import random

from execsrv.session.unified_exec.head_tail_buffer import RETAINED_BYTES, HeadTailBuffer, RetainedOutput


def test_beginning_and_end_are_kept() -> None:
    """What is between them is counted."""
    buffer = HeadTailBuffer(10)
    buffer.append(b"0123456789")
    buffer.append(b"ab")
    assert buffer.take() == RetainedOutput(b"01234", 2, b"789ab")


def test_what_fits_is_whole() -> None:
    """In one piece."""
    buffer = HeadTailBuffer(10)
    for chunk in (b"012", b"3456", b"789"):
        buffer.append(chunk)
    taken = buffer.take()
    assert (taken.retained, taken.total_bytes, taken.omitted_bytes) == (b"0123456789", 10, 0)


def test_odd_bound() -> None:
    """Not a byte is lost of it."""
    buffer = HeadTailBuffer(3)
    buffer.append(b"abcd")
    assert buffer.take() == RetainedOutput(b"a", 1, b"cd")


def test_chunk_that_is_larger_than_the_buffer() -> None:
    """Also one is cut in its middle."""
    buffer = HeadTailBuffer(4)
    buffer.append(b"x")
    buffer.append(b"0123456789")
    taken = buffer.take()
    assert taken == RetainedOutput(b"x0", 7, b"89")
    assert (taken.retained, taken.total_bytes) == (b"x089", 11)


def test_taken_output_is_gone() -> None:
    """What follows has a head of its own."""
    buffer = HeadTailBuffer(4)
    buffer.append(b"0123456789")
    buffer.take()
    assert buffer.take() == RetainedOutput(b"")
    buffer.append(b"ab")
    assert buffer.take().head == b"ab"


def test_any_chunks() -> None:
    """However output comes, the result is that of its bytes."""
    for seed in range(200):
        chance = random.Random(seed)
        data = chance.randbytes(chance.randrange(60))
        bound = chance.randrange(1, 40)
        buffer, rest = HeadTailBuffer(bound), data
        while rest:
            size = chance.randrange(1, 20)
            buffer.append(rest[:size])
            rest = rest[size:]
        taken = buffer.take()
        if len(data) <= bound:
            assert taken.retained == data
        else:
            assert taken.head == data[: bound // 2]
            assert taken.tail == data[len(data) - (bound - bound // 2) :]
        assert taken.total_bytes == len(data)


def test_a_mebibyte_by_default() -> None:
    """Half of it for each end."""
    buffer = HeadTailBuffer()
    for _ in range(3 * 16):
        buffer.append(bytes(64 * 1024))
    taken = buffer.take()
    assert (len(taken.head), len(taken.tail)) == (512 * 1024, 512 * 1024)
    assert taken.omitted_bytes == 2 * RETAINED_BYTES
