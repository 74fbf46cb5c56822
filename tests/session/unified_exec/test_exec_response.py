"""Tests of execsrv.session.unified_exec.response."""

from __future__ import annotations

import pytest

from execsrv.session.unified_exec.head_tail_buffer import RetainedOutput
from execsrv.session.unified_exec.response import ExecCommandResponse, readable, unfinished


def response(output: bytes, exit_code: int | None = None, **fields: object) -> ExecCommandResponse:
    """An answer."""
    session_id = 1234 if exit_code is None else None
    answer = {"max_output_tokens": 10_000, "warning": None, **fields}
    return ExecCommandResponse("a1b2c3", 1.5, RetainedOutput(output), exit_code, session_id, **answer)  # type: ignore


def test_text_of_a_command_that_has_ended() -> None:
    """Line by line."""
    assert response(b"out\nerr\n", 3).text == (
        "Chunk ID: a1b2c3\n"
        "Wall time: 1.5000 seconds\n"
        "Process exited with code 3\n"
        "Original token count: 2\n"
        "Output:\n"
        "out\nerr\n"
    )


def test_text_of_a_command_that_runs() -> None:
    """Its session id stands for the code, and there may be a warning."""
    assert response(b"12345", warning="careful").text == (
        "Chunk ID: a1b2c3\n"
        "Wall time: 1.5000 seconds\n"
        "Process running with session ID 1234\n"
        "Warning: careful\n"
        "Original token count: 2\n"
        "Output:\n"
        "12345"
    )


def test_tokens_count_what_is_omitted() -> None:
    """Four bytes are one, and a part of them is one, too."""
    output = RetainedOutput(b"ab", 100, b"cd")
    answer = ExecCommandResponse("a1b2c3", 0, output, 0, None, 10_000)
    assert answer.original_token_count == 26
    assert response(b"", 0).original_token_count == 0
    assert response(b"x", 0).original_token_count == 1


def test_text_keeps_to_its_budget() -> None:
    """The answer's own bytes are all there."""
    answer = response(b"a" * 40 + b"z" * 40, 0, max_output_tokens=4)
    assert answer.text.endswith("Original token count: 20\nOutput:\naaaaaaaa…16 tokens truncated…zzzzzzzz")
    assert answer.output.retained == b"a" * 40 + b"z" * 40


@pytest.mark.parametrize(
    "output, max_tokens, text",
    [
        (RetainedOutput(b"12345678"), 2, "12345678"),
        (RetainedOutput(b"123456789"), 2, "1234…1 tokens truncated…6789"),
        (RetainedOutput(b"123456789"), 0, "…3 tokens truncated…"),
        (RetainedOutput(b"123456789"), -1, "…3 tokens truncated…"),
        (RetainedOutput(b""), 0, ""),
        (RetainedOutput(b"12345678", 0, b"9"), 2, "1234…1 tokens truncated…6789"),
        (RetainedOutput(b"12", 8, b"34"), 1_000_000, "12…2 tokens truncated…34"),
        (RetainedOutput(b"123456", 4, b"789012"), 2, "1234…2 tokens truncated…9012"),
        (RetainedOutput(b"12", 100, b"3456789"), 2, "12…26 tokens truncated…456789"),
        (RetainedOutput(b"12\xff34\xc3"), 10, "12\ufffd34\ufffd"),
        (RetainedOutput("äöü€𝄞ß".encode()), 10, "äöü€𝄞ß"),
        (RetainedOutput("xäöüx".encode()), 1, "x…2 tokens truncated…x"),
        (RetainedOutput("aa€€zz".encode()), 2, "aa…2 tokens truncated…zz"),
        (RetainedOutput(b"a\xe2\x82", 3, b"\xac\xacz"), 100, "a…2 tokens truncated…z"),
    ],
)
def test_output_as_text(output: RetainedOutput, max_tokens: int, text: str) -> None:
    """It is cut in the middle, between two characters."""
    assert readable(output, max_tokens) == text


@pytest.mark.parametrize("character", "aä€𝄞")
def test_unfinished_character(character: str) -> None:
    """The beginning of one counts, a whole one does not."""
    data = character.encode()
    assert unfinished(b"text" + data) == 0
    for size in range(1, len(data)):
        assert unfinished(b"text" + data[:size]) == size


@pytest.mark.parametrize("data", [b"", b"\xff", b"\xac", b"\x82\xac\xac", b"\xe2(", b"\xc0", b"\xf5\x80"])
def test_nothing_is_to_come_of_what_is_wrong(data: bytes) -> None:
    """No byte can make a character of it."""
    assert unfinished(data) == 0
