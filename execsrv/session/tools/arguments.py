"""What a model passes to a tool: taken from its message and judged by the tool's JSON Schema.

The schemas, in ``schemas/tools/``, are the only description of the tools.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from execsrv import schemas
from execsrv.judge import Fault, Judge
from execsrv.session.tools.result import ToolFault

#: The parts of a schema that a model's interface has no other place for.
_PARAMETERS = ("type", "required", "additionalProperties", "properties")

#: The rules about a value that has the right type.
_BOUNDS = ("minimum", "pattern")


def tool_names() -> list[str]:
    """The names of all tools, sorted."""
    return sorted(_files())


def tool_schema(name: str) -> dict[str, Any]:
    """The schema of a tool's arguments. Raises KeyError when there is no such tool."""
    schema: dict[str, Any] = json.loads(_files()[name].read_text(encoding="utf-8"))
    return schema


def specification(name: str) -> dict[str, Any]:
    """A tool as the interfaces of models want it: ``name``, ``description``, and ``parameters``, a schema.

    Raises KeyError when there is no such tool.
    """
    schema = tool_schema(name)
    parameters = {part: schema[part] for part in _PARAMETERS}
    return {"name": name, "description": schema["description"], "parameters": parameters}


def checked_arguments(name: str, arguments: dict[str, Any] | str, refusals: Mapping[str, str]) -> dict[str, Any]:
    """The arguments that a call has, without those that are null, which means absent.

    arguments: an object, or its JSON. refusals: the words for an argument that is out of its bounds, by its name.

    Raises ToolFault when the tool's schema doesn't accept them, and KeyError when there is no such tool.
    """
    fields = _parsed(arguments) if isinstance(arguments, str) else arguments
    fault = _judge(name).fault(fields)
    if fault is not None:
        raise ToolFault(_worded(fault, refusals))
    return _plain(fields)


def _parsed(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ToolFault(f"arguments are not JSON: {error}") from error


def _worded(fault: Fault, refusals: Mapping[str, str]) -> str:
    argument = fault.field.rpartition(".")[2]
    return refusals.get(argument, str(fault)) if fault.keyword in _BOUNDS else str(fault)


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: _plain_value(value) for name, value in fields.items() if value is not None}


def _plain_value(value: Any) -> Any:
    if isinstance(value, dict):
        return _plain(value)
    return int(value) if isinstance(value, float) else value  # JSON Schema counts 1.0 as an integer


@functools.cache
def _files() -> dict[str, Path]:
    return {path.stem: path for path in (schemas.folder() / "tools").glob("*.json")}


@functools.cache
def _judge(name: str) -> Judge:
    return Judge("arguments", tool_schema(name))
