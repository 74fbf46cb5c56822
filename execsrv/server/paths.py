"""Paths on the wire: text that becomes the bytes the system takes, and bytes that become words in a message."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from execsrv.errors import InvalidParams

#: Longest value that a message repeats, in characters.
SHOWN_CHARACTERS = 200

_FILE_URI = re.compile(r"file://", re.IGNORECASE)
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def native_path(text: str, field: str) -> bytes:
    """The bytes of an absolute path, given as such or as a ``file://`` URI (RFC 8089).

    A URI may name bytes that are not UTF-8 (``%FF``). Raises InvalidParams, naming ``params.FIELD``, for a path
    that is relative or empty, holds NUL or a lone surrogate, and for a URI with a foreign host, a query, a fragment
    or a bad escape.
    """
    try:
        path = _decoded_uri(text[len("file://") :]) if _FILE_URI.match(text) else text.encode()
        _check(path)
    except UnicodeEncodeError:
        raise _fault(field, "must not contain a lone surrogate", text) from None
    except ValueError as error:
        raise _fault(field, str(error), text) from None
    return path


def shown(path: bytes) -> str:
    """``path`` as text for a message: what is not UTF-8 becomes U+FFFD, the middle of a long one an ellipsis."""
    text = path.decode(errors="replace")
    half = SHOWN_CHARACTERS // 2
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:half]}…{text[-half:]}"


def _decoded_uri(rest: str) -> bytes:
    if "?" in rest or "#" in rest:
        raise ValueError("a file:// URI must not have a query or a fragment")
    host, slash, path = rest.partition("/")
    if host.lower() not in ("", "localhost"):
        raise ValueError("the host of a file:// URI must be empty or localhost")
    if _BAD_ESCAPE.search(path):
        raise ValueError("a % in a file:// URI must be followed by two hexadecimal digits")
    return unquote_to_bytes(slash + path)


def _check(path: bytes) -> None:
    if not path:
        raise ValueError("must not be empty")
    if not path.startswith(b"/"):
        raise ValueError("must be an absolute path or a file:// URI")
    if b"\0" in path:
        raise ValueError("must not contain NUL")


def _fault(field: str, fault: str, text: str) -> InvalidParams:
    return InvalidParams(f"params.{field}: {fault}: {shown(text.encode(errors='replace'))!r}")
