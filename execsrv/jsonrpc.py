"""The envelope: bytes to a Request, Notification or Response, and back. No I/O, no state.

A fast parser does the work. What it refuses, or bends (a lone surrogate, an integer beyond 64 bits), goes through
the standard library's parser, so that the fault is answered under its own id. Bytes in a value are written as base64
text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, TypeAlias

import orjson
import pybase64

from execsrv.errors import InvalidRequest, ParseError, RpcError
from execsrv.wire import encode_base64

Id: TypeAlias = int | str

#: The id of an error that belongs to no request.
NO_ID = -1

#: Longest integer that is taken as an id, in decimal digits.
MAX_ID_DIGITS = 1000

#: Longest base64 text, in bytes, that is copied into its message; what is longer is a part of its own.
LONGEST_COPIED = 4096

#: Marks where such a part belongs: no JSON holds this byte (RFC 8259 section 7).
_CUT = b"\0"


class Encoded:
    """A message of ``size`` bytes, in ``parts`` to be sent one after the other; ``bytes()`` joins them."""

    __slots__ = ("parts", "size")

    def __init__(self, *parts: bytes) -> None:
        self.parts = parts
        self.size = sum(map(len, parts))

    def __bytes__(self) -> bytes:
        return b"".join(self.parts)


@dataclass(slots=True)
class Request:
    """A call that wants an answer."""

    id: Id
    method: str
    params: Any


@dataclass(slots=True)
class Notification:
    """A message that wants no answer."""

    method: str
    params: Any


@dataclass(slots=True)
class Response:
    """The answer to a request: a ``result``, or an ``error`` object."""

    id: Id
    outcome: Literal["result", "error"]
    value: Any


Message: TypeAlias = Request | Notification | Response


def parse(data: bytes) -> Message:
    """Read one message.

    Raises ParseError when the bytes are no JSON in UTF-8 or nested too deep, and InvalidRequest when the value is
    neither request, notification nor response, or its id is neither a string nor an integer.
    """
    envelope = _decode(data)
    if not isinstance(envelope, dict):
        raise InvalidRequest("a message is one JSON object; batches are not supported")
    if envelope.get("method") is not None:
        return _parse_call(envelope)
    if "id" in envelope and envelope.get("error") is not None:
        return Response(_checked_id(envelope["id"]), "error", envelope["error"])
    if "id" in envelope and "result" in envelope:
        return Response(_checked_id(envelope["id"]), "result", envelope["result"])
    raise InvalidRequest("the message is neither a request, a notification nor a response")


def request(id: Id, method: str, params: Any) -> Encoded:
    """A request."""
    return _encode({"id": id, "method": method, "params": params})


def notification(method: str, params: Any) -> Encoded:
    """A notification."""
    return _encode({"method": method, "params": params})


def result(id: Id, value: Any) -> Encoded:
    """A successful response."""
    return _encode({"id": id, "result": value})


def error(id: Id, fault: RpcError) -> Encoded:
    """An error response."""
    return _encode({"id": id, "error": fault.to_wire()})


def _parse_call(envelope: dict[str, Any]) -> Request | Notification:
    method, params = envelope["method"], envelope.get("params")
    if not isinstance(method, str):
        raise InvalidRequest("method is not a string")
    if "id" not in envelope:
        return Notification(method, params)
    return Request(_checked_id(envelope["id"]), method, params)


def _checked_id(id: Any) -> Id:
    if isinstance(id, str) or (isinstance(id, int) and not isinstance(id, bool)):
        return id
    raise InvalidRequest(f"id is neither a string nor an integer of at most {MAX_ID_DIGITS} digits")


def _decode(data: bytes) -> Any:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return _decode_slowly(data)
    if isinstance(value, dict) and isinstance(value.get("id"), float):
        return _decode_slowly(data)
    return value


def _decode_slowly(data: bytes) -> Any:
    try:
        return json.loads(data.decode(), parse_int=_parse_int, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise ParseError(f"the message is not UTF-8: byte {error.start}") from None
    except RecursionError:
        raise ParseError("the message is nested too deep") from None
    except ValueError as error:
        raise ParseError(f"the message is not JSON: {error}") from None


def _parse_int(digits: str) -> int | float:
    """An int, or for more digits than an id may have a float, which no field and no id takes."""
    return int(digits) if len(digits.lstrip("-")) <= MAX_ID_DIGITS else float("inf")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _encode(envelope: dict[str, Any]) -> Encoded:
    cut_out: list[bytes] = []

    def fragment(data: Any) -> orjson.Fragment:
        text = pybase64.b64encode(data)
        if len(text) > LONGEST_COPIED:
            cut_out.append(text)
            text = _CUT
        return orjson.Fragment(b'"%b"' % text)

    try:
        text = orjson.dumps(envelope, fragment)
    except orjson.JSONEncodeError:  # an id of more than 64 bits, a lone surrogate, or what is no JSON: raised here
        return Encoded(json.dumps(envelope, default=encode_base64, separators=(",", ":")).encode())
    if not cut_out:
        return Encoded(text)
    head, *rest = text.split(_CUT)
    return Encoded(head, *chain.from_iterable(zip(cut_out, rest, strict=True)))
