"""The faults: code, default kind, and the object on the wire."""

from __future__ import annotations

import pytest

from execsrv.errors import InternalError, InvalidParams, InvalidRequest, NotFound, ParseError, RpcError

CODES = [
    (ParseError, -32700, "parseError"),
    (InvalidRequest, -32600, "invalidMessage"),
    (InvalidParams, -32602, "invalidParams"),
    (NotFound, -32004, "notFound"),
    (InternalError, -32603, "internal"),
]


@pytest.mark.parametrize("cls, code, kind", CODES)
def test_code_and_default_kind(cls: type[RpcError], code: int, kind: str) -> None:
    """A fault without a kind of its own has its class's."""
    assert cls("words").to_wire() == {"code": code, "message": "words", "data": {"kind": kind}}


def test_a_kind_and_further_data_of_its_own() -> None:
    """Both travel in ``data``; the message is also the exception's text."""
    fault = InvalidRequest("unknown process id p", "processForgotten", exitCode=3, exitedAtMs=9)
    assert fault.to_wire()["data"] == {"kind": "processForgotten", "exitCode": 3, "exitedAtMs": 9}
    assert str(fault) == "unknown process id p"
