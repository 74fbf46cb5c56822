"""Verdicts by a schema, and the words for what is wrong."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from execsrv.judge import Fault, Judge

LINE = {"type": ["integer", "null"], "minimum": 1}
CLOSED: dict[str, Any] = {
    "type": "object",
    "required": ["path"],
    "additionalProperties": False,
    "properties": {
        "path": {"type": "string", "pattern": "^/"},
        "line": LINE,
        "inner": {"type": "object", "additionalProperties": False, "properties": {"line": LINE}},
        "empty": {"type": "object", "additionalProperties": False},
    },
}


def fault(value: Any) -> Fault | None:
    """What is wrong with ``value``."""
    return Judge("arguments", CLOSED).fault(value)


@pytest.mark.parametrize("more", [{}, {"line": None}, {"line": 5.0}, {"inner": {"line": 1}}, {"empty": {}}])
def test_a_good_value_has_no_fault(more: dict[str, Any]) -> None:
    """With and without the fields that may be left out."""
    assert fault({"path": "/", **more}) is None


@pytest.mark.parametrize(
    "value, keyword, words",
    [
        ({"path": "/", "line": 0}, "minimum", "arguments.line: 0 is less than the minimum of 1"),
        ({"path": "/", "line": "0"}, "type", "arguments.line: '0' is not of type 'integer', 'null'"),
        ({"path": "/", "inner": {"line": -1}}, "minimum", "arguments.inner.line: -1 is less than the minimum of 1"),
        ({"path": "x"}, "pattern", "arguments.path: 'x' does not match '^/'"),
        ({"line": 1}, "required", "arguments.path: is missing"),
        ([], "type", "arguments: [] is not of type 'object'"),
        ({"path": "/", "more": 1}, "additionalProperties", "arguments.more: is not known"),
        ({"path": "/", "inner": {"line": 1, "x": 1}}, "additionalProperties", "arguments.inner.x: is not known"),
        ({"path": "/", "empty": {"x": 1}}, "additionalProperties", "arguments.empty.x: is not known"),
        ({"path": "/", "\ud800": 1}, "additionalProperties", "arguments.\\ud800: is not known"),
        ({"path": "/\ud800", "line": 0}, "minimum", "arguments.line: 0 is less than the minimum of 1"),
    ],
)
def test_a_fault_tells_the_rule_the_field_and_what_is_wrong(value: Any, keyword: str, words: str) -> None:
    """An unknown field of a closed object and a missing one are named, not the object that they belong to."""
    found = fault(value)
    assert found
    assert found.keyword == keyword
    assert str(found) == words == f"{found.field}: {found.words}"


def test_a_long_name_and_a_long_value_lose_their_middles() -> None:
    """So that a message stays short."""
    long_name = fault({"path": "/", "n" * 10_000: 1})
    long_value = fault({"path": "x" * 10_000})
    assert long_name and long_value
    assert len(str(long_name)) < 300 and long_name.words == "is not known"
    assert len(str(long_value)) < 300 and long_value.words.endswith("'^/'")


def test_a_fault_that_only_one_library_sees_is_told_all_the_same() -> None:
    """Then the words are those of the library that gave the verdict."""
    judge = Judge("params", {"properties": {"path": {"type": "string"}}})
    with pytest.raises(jsonschema_rs.ValidationError) as caught:
        jsonschema_rs.Draft202012Validator({"properties": {"path": {"type": "string"}}}).validate({"path": 5})
    found = judge._worded({"path": "fine"}, caught.value)
    assert str(found) == 'params.path: 5 is not of type "string"'
