"""The method reference in Markdown, made from the schemas: what the README holds between two markers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from execsrv import schemas

#: The lines of the README between which the reference stands.
BEGIN = "<!-- reference: begin (made by `execsrv schema --markdown`) -->"
END = "<!-- reference: end -->"

#: Headings, and the methods under each in the order in which they are met.
SECTIONS = {
    "Handshake": ["initialize", "initialized"],
    "Processes": [
        "process/start",
        "process/write",
        "process/closeStdin",
        "process/resize",
        "process/signal",
        "process/terminate",
        "process/wait",
        "process/read",
        "process/snapshot",
        "process/list",
        "process/ack",
    ],
    "Notifications of a process": ["process/started", "process/output", "process/exited", "process/closed"],
    "Files": [
        "fs/readFile",
        "fs/writeFile",
        "fs/createDirectory",
        "fs/getMetadata",
        "fs/readDirectory",
        "fs/remove",
        "fs/copy",
        "fs/open",
        "fs/readBlock",
        "fs/writeBlock",
        "fs/close",
    ],
    "The older dialect": [
        "command/exec",
        "command/exec/write",
        "command/exec/terminate",
        "command/exec/outputDelta",
        "command/exec/exited",
    ],
}

_INTRODUCTION = """\
An optional param may be null, which means the same as absent. Unknown fields are ignored on both sides. In the
examples `->` goes to the server and `<-` to the client.
"""

_KINDS: dict[schemas.Kind, str] = {
    "request": "Request",
    "clientNotification": "Notification to the server",
    "serverNotification": "Notification to the client",
}

#: From here on an upper bound only says that the number fits into a double.
_UNBOUNDED = 2**53 - 1


def markdown() -> str:
    """The whole reference, without the markers; ends with a line break."""
    return "\n".join([_INTRODUCTION, *(_section(title, methods) for title, methods in SECTIONS.items())])


def _section(title: str, methods: list[str]) -> str:
    return f"### {title}\n\n" + "\n".join(_method(schemas.schema(method)) for method in methods)


def _method(schema: dict[str, Any]) -> str:
    parts = schema["properties"]
    blocks = [
        f"#### `{schema['title']}`",
        f"*{_KINDS[schema['x-kind']]}.* {schema['description']}",
        _table("params", parts["params"]),
        _table("result", parts.get("result", {})),
        f"```\n{_example(schema)}\n```",
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _table(part: schemas.Part, rule: dict[str, Any]) -> str:
    """A row a field; a column for defaults only where some field may be left out."""
    fields = list(_fields(rule))
    if not fields:
        return ""
    rows = [(part, "type", "default", "meaning"), ("---",) * 4, *(_row(*field) for field in fields)]
    if all(required for _, _, required in fields):
        rows = [(name, type_, meaning) for name, type_, _, meaning in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _fields(rule: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Name, rule and requiredness of every field, inner ones after the field that holds them."""
    for name, field in rule.get("properties", {}).items():
        yield prefix + name, field, name in rule.get("required", [])
        yield from _fields(field, f"{prefix}{name}.")
        yield from _fields(field.get("items", {}), f"{prefix}{name}[].")


def _row(name: str, rule: dict[str, Any], required: bool) -> tuple[str, ...]:
    or_null = " or null" if required and _takes_null(rule) else ""
    return f"`{name}`", _type(rule) + or_null, "required" if required else _default(rule), rule["description"]


def _takes_null(rule: dict[str, Any]) -> bool:
    return isinstance(rule.get("type"), list) or None in rule.get("enum", [])


def _default(rule: dict[str, Any]) -> str:
    if "default" in rule:
        return f"`{json.dumps(rule['default'])}`"
    return "null" if _takes_null(rule) else "absent"


def _type(rule: dict[str, Any]) -> str:
    if "type" not in rule:
        values = rule.get("enum", [rule.get("const")])
        return ", ".join(f"`{json.dumps(value)}`" for value in values if value is not None)
    name = rule["type"][0] if _takes_null(rule) else rule["type"]
    inner = rule.get("items") or rule.get("additionalProperties")
    if inner:
        return f"{name} of {_type(inner)}s"
    return _integer(rule) if name == "integer" else str(rule.get("contentEncoding", name))


def _integer(rule: dict[str, Any]) -> str:
    low, high = rule["minimum"], rule["maximum"]
    if high < _UNBOUNDED:
        return f"integer ({low} to {high})"
    return f"integer (at least {low})" if low > -_UNBOUNDED else "integer"


def _example(schema: dict[str, Any]) -> str:
    """What goes over the wire: ``->`` to the server, ``<-`` to the client."""
    example = schema["examples"][0]
    call = {"method": schema["title"], "params": example["params"]}
    match schema["x-kind"]:
        case "request":
            answer = {"id": 1, "result": example["result"]}
            return f"-> {json.dumps({'id': 1, **call})}\n<- {json.dumps(answer)}"
        case "clientNotification":
            return f"-> {json.dumps(call)}"
        case _:
            return f"<- {json.dumps(call)}"
