"""The faults that travel on the wire: a code, a stable kind and words.

    RpcError
    ├── ParseError       -32700  the message is no JSON
    ├── InvalidRequest   -32600  the request makes no sense here and now
    ├── InvalidParams    -32602  the params have the wrong shape or value
    ├── NotFound         -32004  the file is not there
    └── InternalError    -32603  the operating system, or we, failed

Codes, kinds and messages are part of the protocol; the class is chosen by the code, the kind tells programs
what happened. Nothing here knows JSON.
"""

from __future__ import annotations

from typing import Any

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
NOT_FOUND = -32004

#: Messages repeat what the peer sent; of a longer one the middle is left out. Characters.
LONGEST_MESSAGE = 1000

_KINDS_THAT_TELL_AN_END = {"stdinClosed", "processExited", "processForgotten"}


class RpcError(Exception):
    """A fault that the peer is told: ``code``, ``kind``, ``message`` and further ``data`` fields."""

    code: int = INTERNAL_ERROR
    default_kind: str = "internal"

    def __init__(self, message: str, kind: str | None = None, **data: Any) -> None:
        super().__init__(message)
        self.message = _clipped(message)
        self.kind = kind or self.default_kind
        self.data = data

    @property
    def tells_end(self) -> bool:
        """Must the notification of an exit be sent before this error?"""
        return self.kind in _KINDS_THAT_TELL_AN_END

    def to_wire(self) -> dict[str, Any]:
        """The ``error`` member of a response."""
        return {"code": self.code, "message": self.message, "data": {"kind": self.kind, **self.data}}


def _clipped(text: str) -> str:
    half = LONGEST_MESSAGE // 2
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:half]}...{text[-half:]}"


class ParseError(RpcError):
    """The bytes are not one JSON value in UTF-8."""

    code = PARSE_ERROR
    default_kind = "parseError"


class InvalidRequest(RpcError):
    """The message, or what it asks for, does not fit the state that it meets."""

    code = INVALID_REQUEST
    default_kind = "invalidMessage"


class InvalidParams(RpcError):
    """A field of the params is missing, of the wrong type or out of range; the message names it."""

    code = INVALID_PARAMS
    default_kind = "invalidParams"


class NotFound(RpcError):
    """The path does not exist (ENOENT)."""

    code = NOT_FOUND
    default_kind = "notFound"


class InternalError(RpcError):
    """The operating system refused, or the server has a bug; never carries a traceback."""
