"""Dataclasses to JSON objects and back."""

from __future__ import annotations

from typing import Any

import pytest

from execsrv import wire
from execsrv.protocol import common, events, files, processes


def test_names_become_camel_case() -> None:
    """Words after the first begin with a capital."""
    names = ["argv", "arg0", "exit_code", "ignore_default_excludes"]
    assert [wire.camel_case(name) for name in names] == ["argv", "arg0", "exitCode", "ignoreDefaultExcludes"]


@pytest.mark.parametrize("text", ["", "AA==", "aGVsbG8K", "//79"])
def test_base64_comes_back(text: str) -> None:
    """Standard alphabet, padded."""
    assert wire.encode_base64(wire.decode_base64(text)) == text


NO_BASE64 = ["A", "AA", "AA=", "AA==\n", "A A==", "__79", "aGVsbG8K!", "ä", "\ud800", "=", "AA==AA=="]


@pytest.mark.parametrize("text", NO_BASE64)
def test_what_is_not_padded_standard_base64_raises(text: str) -> None:
    """Also the URL alphabet, white space and text that is not ASCII."""
    with pytest.raises(ValueError):
        wire.decode_base64(text)


def test_params_take_what_is_there_and_default_the_rest() -> None:
    """Unknown members are ignored, null means absent, nested objects become dataclasses."""
    fields = {
        "processId": "p",
        "argv": ["a"],
        "cwd": "/",
        "env": {"A": "b"},
        "tty": True,
        "arg0": None,
        "pipeStdin": None,
        "size": {"rows": 50, "cols": None, "depth": 3},
        "envPolicy": {"set": {"C": "d"}, "includeOnly": None},
        "surprise": 1,
    }
    assert wire.from_wire(processes.ProcessStartParams, fields) == processes.ProcessStartParams(
        process_id="p",
        argv=["a"],
        cwd="/",
        env={"A": "b"},
        tty=True,
        size=processes.Size(rows=50, cols=80),
        env_policy=processes.EnvPolicy(set={"C": "d"}),
    )


def test_an_integral_float_becomes_an_int() -> None:
    """JSON Schema lets 1.0 pass as an integer."""
    params = wire.from_wire(processes.ProcessReadParams, {"processId": "p", "afterSeq": 1.0, "maxBytes": 2.0})
    assert [type(params.after_seq), type(params.max_bytes)] == [int, int]


def test_base64_of_params_is_left_to_the_handler() -> None:
    """Their text is kept as it came."""
    assert wire.from_wire(processes.ProcessWriteParams, {"processId": "p", "chunk": "!"}).chunk == "!"


VALUES: list[tuple[Any, dict[str, Any]]] = [
    (common.Empty(), {}),
    (processes.ProcessWriteResult(), {"accepted": True, "status": "accepted"}),
    (
        events.ProcessOutput("p", 1, "stdout", b"\xff\x00"),
        {"processId": "p", "seq": 1, "stream": "stdout", "chunk": b"\xff\x00"},
    ),
    (
        events.ProcessExited("p", 2, 137, None, "terminated"),
        {"processId": "p", "seq": 2, "exitCode": 137, "signal": None, "reason": "terminated"},
    ),
    (
        files.ReadDirectoryResult(
            [
                files.DirectoryEntry("a", False, True, False),
                files.DirectoryEntry("\ufffd", False, True, False, b"\xff"),
            ]
        ),
        {
            "entries": [
                {"fileName": "a", "isDirectory": False, "isFile": True, "isSymlink": False},
                {
                    "fileName": "\ufffd",
                    "isDirectory": False,
                    "isFile": True,
                    "isSymlink": False,
                    "fileNameBase64": b"\xff",
                },
            ]
        },
    ),
]


@pytest.mark.parametrize("value, fields", VALUES, ids=lambda case: type(case).__name__)
def test_results_and_events_go_both_ways(value: Any, fields: dict[str, Any]) -> None:
    """Bytes stay bytes, lists of dataclasses become lists of objects, only marked fields are left out when None."""
    assert wire.to_wire(value) == fields
    assert wire.from_wire(type(value), wire.to_json(fields)) == value


def test_a_missing_field_and_bad_base64_raise() -> None:
    """A peer that breaks the schema is noticed."""
    with pytest.raises(TypeError):
        wire.from_wire(events.ProcessStarted, {"processId": "p"})
    with pytest.raises(ValueError):
        wire.from_wire(files.ReadFileResult, {"dataBase64": "?"})
