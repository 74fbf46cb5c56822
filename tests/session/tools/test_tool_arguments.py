"""Arguments from a model: their JSON, their schema, and the words for what is wrong with them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from execsrv.session.tools import list_dir, read_file, view_image
from execsrv.session.tools.arguments import checked_arguments, specification, tool_names, tool_schema
from execsrv.session.tools.result import ToolFault


def fault(name: str, refusals: Mapping[str, str], arguments: Any) -> str:
    """The words with which ``arguments`` are refused."""
    with pytest.raises(ToolFault) as caught:
        checked_arguments(name, arguments, refusals)
    return str(caught.value)


@pytest.mark.parametrize("arguments", [{"path": "/a"}, '{"path": "/a"}', ' {"path":"\\u002fa"}\n'])
def test_arguments_are_an_object_or_its_json(arguments: Any) -> None:
    """Both are the same."""
    assert checked_arguments("view_image", arguments, {}) == {"path": "/a"}


@pytest.mark.parametrize("text", ["", "{", '{"path": "/a"}x', "nonsense", '{"path": "\\ud800"}', "[" * 100_000])
def test_what_is_not_json_is_a_fault(text: str) -> None:
    """Empty, cut off, followed by something, with half a character, nested too deep."""
    words = fault("view_image", {}, text)
    assert words.startswith("arguments are not JSON: ") and len(words) < 200


@pytest.mark.parametrize("arguments", ["[]", "null", "5", [], None])
def test_another_json_value_is_a_fault(arguments: Any) -> None:
    """Only an object has arguments."""
    assert fault("view_image", {}, arguments).endswith("is not of type 'object'")


def test_null_is_absent_and_a_whole_number_an_integer() -> None:
    """Also in an object inside; 1.0 is whole, as JSON Schema has it."""
    inner = {"anchor_line": 3.0, "max_lines": None, "include_header": False}
    arguments = {"file_path": "/a", "offset": None, "limit": 2.0, "mode": None, "indentation": inner}
    found = checked_arguments("read_file", arguments, {})
    assert found == {"file_path": "/a", "limit": 2, "indentation": {"anchor_line": 3, "include_header": False}}
    assert isinstance(found["limit"], int) and isinstance(found["indentation"]["anchor_line"], int)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"file_path": "a"}, "file_path must be an absolute path"),
        ({"file_path": ""}, "file_path must be an absolute path"),
        ({"offset": 0}, "offset must be a 1-indexed line number"),
        ({"offset": -5}, "offset must be a 1-indexed line number"),
        ({"limit": 0}, "limit must be greater than zero"),
        ({"indentation": {"anchor_line": 0}}, "anchor_line must be a 1-indexed line number"),
        ({"indentation": {"max_lines": 0}}, "max_lines must be greater than zero"),
        ({"indentation": {"max_levels": -1}}, "arguments.indentation.max_levels: -1 is less than the minimum of 0"),
        ({"offset": "0"}, "arguments.offset: '0' is not of type 'integer', 'null'"),
        ({"offset": 1.5}, "arguments.offset: 1.5 is not of type 'integer', 'null'"),
        ({"limit": 10**30}, f"arguments.limit: {10**30} is greater than the maximum of 9007199254740991"),
        ({"mode": "block"}, "arguments.mode: 'block' is not one of ['slice', 'indentation', None]"),
        ({"file_path": None}, "arguments.file_path: None is not of type 'string'"),
        ({"path": "/a"}, "arguments.path: is not known"),
        ({"indentation": {"line": 1}}, "arguments.indentation.line: is not known"),
        ({"file_path": "/\ud800", "limit": 0}, "limit must be greater than zero"),
    ],
)
def test_the_arguments_of_read_file_are_judged(arguments: dict[str, Any], words: str) -> None:
    """Its own words for what is out of bounds, those of the schema for the rest."""
    assert fault("read_file", read_file.REFUSALS, {"file_path": "/a", **arguments}) == words


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"dir_path": "./a"}, "dir_path must be an absolute path"),
        ({"offset": 0}, "offset must be a 1-indexed entry number"),
        ({"limit": 0}, "limit must be greater than zero"),
        ({"depth": 0}, "depth must be greater than zero"),
        ({"depth": True}, "arguments.depth: True is not of type 'integer', 'null'"),
        ({"recursive": True}, "arguments.recursive: is not known"),
    ],
)
def test_the_arguments_of_list_dir_are_judged(arguments: dict[str, Any], words: str) -> None:
    """As those of every tool."""
    assert fault("list_dir", list_dir.REFUSALS, {"dir_path": "/a", **arguments}) == words


def test_the_arguments_of_view_image_are_judged() -> None:
    """There is but one."""
    assert fault("view_image", view_image.REFUSALS, {"path": "a.png"}) == "path must be an absolute path"
    assert fault("view_image", view_image.REFUSALS, {}) == "arguments.path: is missing"


def test_a_long_value_is_not_repeated() -> None:
    """Its middle is left out."""
    assert len(fault("read_file", {}, {"file_path": "/a", "limit": "x" * 100_000})) < 400


@pytest.mark.parametrize("name", ["", "grep_files", "../fs.copy", "common"])
def test_a_tool_without_a_schema_is_unknown(name: str) -> None:
    """No name reaches the file system."""
    for use in (tool_schema, specification):
        with pytest.raises(KeyError):
            use(name)


@pytest.mark.parametrize("name", tool_names())
def test_a_specification_is_what_a_model_is_told(name: str) -> None:
    """Words and a schema for the arguments, nothing of the file besides; each caller gets its own."""
    schema = tool_schema(name)
    told = specification(name)
    assert list(told) == ["name", "description", "parameters"]
    assert (told["name"], told["description"]) == (name, schema["description"])
    assert json.dumps(told["parameters"]["properties"]) == json.dumps(schema["properties"])
    assert told["parameters"]["required"] == schema["required"]
    told["parameters"]["properties"].clear()
    assert specification(name)["parameters"]["properties"]
