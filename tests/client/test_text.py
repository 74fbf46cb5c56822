"""Tests of execsrv.client.text."""

from __future__ import annotations

from execsrv.client.text import TextOutput, decode, decode_outputs
from execsrv.protocol.common import StreamName
from execsrv.protocol.events import ProcessOutput


def outputs(*pieces: tuple[StreamName, bytes]) -> list[ProcessOutput]:
    """Output in these pieces."""
    return [ProcessOutput("p", seq, stream, chunk) for seq, (stream, chunk) in enumerate(pieces, 1)]


def test_whole_text() -> None:
    """Wrong bytes are replaced, line ends translated."""
    assert decode(b"gr\xc3\xbc\xc3\x9fe\r\n\xff\r") == "grüße\n\ufffd\n"


def test_characters_are_never_split() -> None:
    """Each stream waits for the rest of its own."""
    pieces = outputs(("stdout", b"a\xe2\x82"), ("stderr", b"\xc3"), ("stdout", b"\xac\r"), ("stderr", b"\xa4"))
    assert list(decode_outputs(pieces)) == [
        TextOutput("stdout", "a"),
        TextOutput("stdout", "€"),
        TextOutput("stderr", "ä"),
        TextOutput("stdout", "\n"),
    ]


def test_beginning_without_an_end() -> None:
    """It is replaced when the stream has ended."""
    assert list(decode_outputs(outputs(("pty", b"\xe2\x82")))) == [TextOutput("pty", "\ufffd")]


def test_text_comes_with_its_output() -> None:
    """Not only at the end."""
    source = iter(outputs(("stdout", b"one"), ("stdout", b"two")))
    assert next(decode_outputs(source)) == TextOutput("stdout", "one")
    assert next(source).chunk == b"two"
