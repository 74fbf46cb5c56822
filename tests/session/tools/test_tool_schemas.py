"""The schema files of the tools, and their agreement with the functions."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from execsrv import schemas
from execsrv.session.tools import list_dir, read_file, view_image
from execsrv.session.tools.arguments import tool_names, tool_schema
from execsrv.session.tools.indentation import BlockOptions
from execsrv.session.unified_exec.manager import UnifiedExecManager

FOLDER = Path(__file__).parent.parent.parent.parent / "schemas" / "tools"

#: Each tool's function, whose first argument and keywords are not the model's, and its words for what is out of
#: bounds.
TOOLS: dict[str, tuple[Callable[..., Any], Mapping[str, str]]] = {
    "exec_command": (UnifiedExecManager.exec_command, {}),
    "list_dir": (list_dir.list_dir, list_dir.REFUSALS),
    "read_file": (read_file.read_file, read_file.REFUSALS),
    "view_image": (view_image.view_image, view_image.REFUSALS),
    "write_stdin": (UnifiedExecManager.write_stdin, {}),
}


def fields(rule: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Name, rule and requiredness of every argument, those of objects inside included."""
    for name, field in rule.get("properties", {}).items():
        yield name, field, name in rule.get("required", [])
        yield from fields(field)


ARGUMENTS = [(tool, *field) for tool in TOOLS for field in fields(tool_schema(tool))]


def test_every_file_is_a_tool() -> None:
    """And none of them is a method of the server."""
    assert tool_names() == sorted(path.stem for path in FOLDER.iterdir()) == sorted(TOOLS)
    assert not set(tool_names()) & set(schemas.methods())


@pytest.mark.parametrize("name", TOOLS)
def test_a_file_says_what_it_describes(name: str) -> None:
    """By the rules of draft 2020-12, under the name of its file."""
    schema = json.loads((FOLDER / f"{name}.json").read_text())
    assert schema == tool_schema(name)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert (schema["title"], schema["$id"]) == (name, f"tools/{name}.json")
    assert schema["description"].endswith(".")
    assert "$ref" not in json.dumps(schema)


@pytest.mark.parametrize("name", TOOLS)
def test_every_example_holds(name: str) -> None:
    """There is at least one."""
    examples = tool_schema(name)["examples"]
    assert examples
    for example in examples:
        Draft202012Validator(tool_schema(name)).validate(example)


@pytest.mark.parametrize("tool, name, rule, required", ARGUMENTS)
def test_an_argument_is_described_and_bounded(tool: str, name: str, rule: dict[str, Any], required: bool) -> None:
    """In a sentence; integers have bounds, objects are closed, null and the default fit what may be left out."""
    assert rule["description"].endswith(".")
    if "integer" in rule.get("type", []):
        assert rule["minimum"] < rule["maximum"]
    if "object" in rule.get("type", []):
        assert rule["additionalProperties"] is False
    validator = Draft202012Validator(rule)
    assert validator.is_valid(None) != required
    assert required or validator.is_valid(rule.get("default"))


@pytest.mark.parametrize("tool, name, rule, required", ARGUMENTS)
def test_what_is_out_of_bounds_has_words(tool: str, name: str, rule: dict[str, Any], required: bool) -> None:
    """Those of the tool for a path and for what counts from one."""
    refusals = TOOLS[tool][1]
    assert (name in refusals) == ("pattern" in rule or rule.get("minimum") == 1)
    assert refusals.get(name, name).startswith(name)


@pytest.mark.parametrize("name", TOOLS)
def test_a_function_takes_what_its_schema_says(name: str) -> None:
    """The same names in the same order, and the same defaults."""
    schema = tool_schema(name)
    _, *parameters = inspect.signature(TOOLS[name][0]).parameters.values()
    parameters = [parameter for parameter in parameters if parameter.kind is not inspect.Parameter.KEYWORD_ONLY]
    assert [parameter.name for parameter in parameters] == list(schema["properties"])
    for parameter in parameters:
        argument = parameter.name
        required = parameter.default is inspect.Parameter.empty
        assert required == (argument in schema["required"])
        assert required or parameter.default == schema["properties"][argument].get("default")


def test_a_block_is_described_by_what_the_schema_says() -> None:
    """The same names in the same order, and the same defaults."""
    rules = tool_schema("read_file")["properties"]["indentation"]["properties"]
    assert {field.name: field.default for field in dataclasses.fields(BlockOptions)} == {
        name: rule.get("default") for name, rule in rules.items()
    }
