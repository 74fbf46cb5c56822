"""The words of the errors, which are part of the protocol."""

from __future__ import annotations

import pytest

from execsrv.errors import InvalidParams, RpcError
from execsrv.server.processes import faults


@pytest.mark.parametrize(
    "fault, code, message, data",
    [
        (faults.duplicate_process("p1"), -32600, "process p1 already exists", {"kind": "duplicateProcess"}),
        (faults.unknown_process("p1"), -32600, "unknown process id p1", {"kind": "unknownProcess"}),
        (
            faults.forgotten_process("p1", 3, 17),
            -32600,
            "unknown process id p1",
            {"kind": "processForgotten", "exitCode": 3, "exitedAtMs": 17},
        ),
        (faults.stdin_closed("p1"), -32600, "stdin is closed for process p1", {"kind": "stdinClosed"}),
    ],
)
def test_each_fault_has_its_words(fault: RpcError, code: int, message: str, data: dict[str, object]) -> None:
    """Code, message and data as they go on the wire."""
    assert fault.to_wire() == {"code": code, "message": message, "data": data}


def test_a_limit_is_named_with_its_value() -> None:
    """So that a user knows which one and how far."""
    fault = faults.limit_exceeded(256, "processes of a connection").to_wire()
    assert fault["code"] == -32600
    assert fault["data"] == {"kind": "limitExceeded"}
    assert fault["message"] == "limit exceeded: at most 256 processes of a connection"


@pytest.mark.parametrize("chunk, data", [("", b""), ("AP8=", b"\x00\xff"), ("YWJj", b"abc")])
def test_a_chunk_is_base64(chunk: str, data: bytes) -> None:
    """Standard, padded."""
    assert faults.decode_chunk(chunk) == data


@pytest.mark.parametrize("chunk", ["a", "YWI", "YW Jj", "YWJj\n", "-_-_", "ä", "====", "\ud800"])
def test_anything_else_is_refused(chunk: str) -> None:
    """Also the URL alphabet, white space and missing padding."""
    with pytest.raises(InvalidParams, match="params.chunk"):
        faults.decode_chunk(chunk)
