"""Paths on the wire: absolute ones and file:// URIs become bytes, all else is told by name."""

from __future__ import annotations

import json

import pytest

from execsrv.errors import InvalidParams
from execsrv.server.paths import SHOWN_CHARACTERS, native_path, shown


@pytest.mark.parametrize(
    "text, path",
    [
        ("/", b"/"),
        ("/a/b", b"/a/b"),
        ("//a//b/", b"//a//b/"),
        ("/a/../b/.", b"/a/../b/."),
        ("/häuser/\U0001f600", "/häuser/\U0001f600".encode()),
        ("/not%20decoded?#", b"/not%20decoded?#"),
        ("file:///a/b", b"/a/b"),
        ("file://localhost/a", b"/a"),
        ("file://LOCALHOST/a", b"/a"),
        ("FILE:///a", b"/a"),
        ("file:///", b"/"),
        ("file:///a%20b%2Fc%3f%23", b"/a b/c?#"),
        ("file:///%ff%FE", b"/\xff\xfe"),
        ("file:///h%C3%A4user", "/häuser".encode()),
        ("file:///häuser", "/häuser".encode()),
        ("file:////a", b"//a"),
    ],
)
def test_absolute_paths_and_file_uris_become_bytes(text: str, path: bytes) -> None:
    """A native path is taken as it is, a URI percent-decoded to bytes that need not be UTF-8."""
    assert native_path(text, "path") == path


@pytest.mark.parametrize(
    "text, fault",
    [
        ("", "must not be empty"),
        ("a", "must be an absolute path or a file:// URI"),
        ("./a", "must be an absolute path or a file:// URI"),
        ("~/a", "must be an absolute path or a file:// URI"),
        ("http://localhost/a", "must be an absolute path or a file:// URI"),
        ("file:a", "must be an absolute path or a file:// URI"),
        ("/a\0b", "must not contain NUL"),
        ("file:///a%00b", "must not contain NUL"),
        ("/a\ud800", "must not contain a lone surrogate"),
        ("/a\udcff", "must not contain a lone surrogate"),
        ("file:///a\udcff", "must not contain a lone surrogate"),
        ("file://", "must not be empty"),
        ("file://localhost", "must not be empty"),
        ("file://example.org/a", "the host of a file:// URI must be empty or localhost"),
        ("file://a", "the host of a file:// URI must be empty or localhost"),
        ("file:///a?b", "a file:// URI must not have a query or a fragment"),
        ("file:///a#b", "a file:// URI must not have a query or a fragment"),
        ("file:///a?", "a file:// URI must not have a query or a fragment"),
        ("file:///a%", "a % in a file:// URI must be followed by two hexadecimal digits"),
        ("file:///a%2", "a % in a file:// URI must be followed by two hexadecimal digits"),
        ("file:///a%zz", "a % in a file:// URI must be followed by two hexadecimal digits"),
        ("file:///%+1", "a % in a file:// URI must be followed by two hexadecimal digits"),
    ],
)
def test_a_fault_names_the_field_and_the_reason(text: str, fault: str) -> None:
    """The message starts with the field, then says what is wrong."""
    with pytest.raises(InvalidParams) as caught:
        native_path(text, "sourcePath")
    assert caught.value.message.startswith(f"params.sourcePath: {fault}: ")
    json.dumps(caught.value.to_wire(), ensure_ascii=False).encode()


def test_a_long_value_is_shortened_in_the_message() -> None:
    """Start and end are shown, so that a huge value does not travel back."""
    with pytest.raises(InvalidParams) as caught:
        native_path("start" + "x" * 100_000 + "end", "path")
    assert len(caught.value.message) < 2 * SHOWN_CHARACTERS
    assert "start" in caught.value.message and "end" in caught.value.message


def test_shown_is_text_for_any_bytes() -> None:
    """Bytes that are not UTF-8 become U+FFFD; a path of just the length shown stays whole."""
    assert shown(b"/a\xff") == "/a\ufffd"
    assert shown(b"x" * SHOWN_CHARACTERS) == "x" * SHOWN_CHARACTERS
    assert shown(b"x" * (SHOWN_CHARACTERS + 1)) == "x" * (SHOWN_CHARACTERS // 2) + "…" + "x" * (SHOWN_CHARACTERS // 2)
