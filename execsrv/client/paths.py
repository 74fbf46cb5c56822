"""Paths on the server's machine, whatever system this one is."""

from __future__ import annotations

import os
import urllib.parse
from typing import TypeAlias

AnyPath: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]


def wire_path(path: AnyPath) -> str:
    """A path as the protocol wants it: itself, or a ``file://`` URI when it is not UTF-8."""
    raw = path_bytes(path)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "file://" + urllib.parse.quote(raw)


def path_bytes(path: AnyPath) -> bytes:
    """The path's bytes; str is taken as ``os.fsdecode`` makes it on the server's machine."""
    path = os.fspath(path)
    return path if isinstance(path, bytes) else path.encode("utf-8", "surrogateescape")


def parent(path: AnyPath) -> bytes:
    """The directory that ``path`` is in."""
    return path_bytes(path).rstrip(b"/").rpartition(b"/")[0] or b"/"
