"""Tests of execsrv.client.paths."""

from __future__ import annotations

from pathlib import Path

from execsrv.client.paths import parent, path_bytes, wire_path

ODD_NAME = b"caf\xe9"


def test_wire_path() -> None:
    """A path is sent as it is, one that is not UTF-8 as a URI."""
    assert wire_path("/a b/%41") == "/a b/%41"
    assert wire_path(Path("/ü")) == wire_path("/ü".encode()) == "/ü"
    assert wire_path(b"/a b/" + ODD_NAME) == "file:///a%20b/caf%E9"
    assert wire_path("/" + ODD_NAME.decode("utf-8", "surrogateescape")) == "file:///caf%E9"


def test_path_bytes() -> None:
    """Every kind of path has them."""
    assert path_bytes("/" + ODD_NAME.decode("utf-8", "surrogateescape")) == path_bytes(b"/" + ODD_NAME)
    assert path_bytes(Path("/\xfc")) == "/\xfc".encode()


def test_parent() -> None:
    """Without regard to slashes at the end, and not above the root."""
    assert parent("/a/b/c") == parent(b"/a/b/c//") == b"/a/b"
    assert parent("/a") == parent("/") == b"/"
