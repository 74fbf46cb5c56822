"""The method reference: made from the schemas, and the same in the README."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from execsrv import reference, schemas

README = Path(__file__).parent.parent / "README.md"


def section(method: str) -> str:
    """What the reference says about ``method``."""
    return reference.markdown().partition(f"#### `{method}`\n")[2].partition("\n#")[0]


def test_the_readme_holds_the_reference() -> None:
    """When this fails: put the output of ``execsrv schema --markdown`` between the markers."""
    text = README.read_text(encoding="utf-8")
    assert text.count(reference.BEGIN) == text.count(reference.END) == 1
    block = text.partition(reference.BEGIN)[2].partition(reference.END)[0]
    assert block.strip() == reference.markdown().strip()


def test_every_method_has_its_place() -> None:
    """Once, under one heading."""
    placed = [method for methods in reference.SECTIONS.values() for method in methods]
    assert sorted(placed) == schemas.methods()


@pytest.mark.parametrize("method", schemas.methods())
def test_every_field_has_its_row(method: str) -> None:
    """Name and meaning of each param and each result field, and the method's description."""
    text = section(method)
    assert schemas.schema(method)["description"] in text
    for part in schemas.schema(method)["properties"].values():
        for name, field in part.get("properties", {}).items():
            assert f"| `{name}` | " in text
            assert f" | {field['description']} |\n" in text


@pytest.mark.parametrize("method", schemas.methods())
def test_the_example_is_what_travels(method: str) -> None:
    """Arrows show the direction; what follows is a message that the schemas accept."""
    lines = section(method).partition("```\n")[2].partition("\n```")[0].splitlines()
    arrows = {"request": ["->", "<-"], "clientNotification": ["->"], "serverNotification": ["<-"]}
    assert [line[:2] for line in lines] == arrows[schemas.kind(method)]
    messages = [json.loads(line[3:]) for line in lines]
    assert messages[0]["method"] == method
    schemas.validate_params(method, messages[0]["params"])
    if len(messages) == 2:
        schemas.validate_result(method, messages[1]["result"])


@pytest.mark.parametrize(
    "method, row",
    [
        ("process/start", "| `argv` | array of strings | required | The program"),
        ("process/start", "| `arg0` | string | null | What"),
        ("process/start", "| `size.rows` | integer (1 to 65535) | `24` | Height"),
        ("process/start", '| `envPolicy.inherit` | `"all"`, `"core"`, `"none"` | `"all"` | Which'),
        ("process/read", "| `chunks` | array of objects | The output"),
        ("process/read", "| `chunks[].chunk` | base64 | The bytes"),
        ("process/read", "| `exitCode` | integer (-1 to 255) or null | As in"),
        ("process/read", "| `afterSeq` | integer (at least 0) | `0` | Return"),
        ("process/write", "| `accepted` | `true` | Always"),
        ("fs/getMetadata", "| `createdAtMs` | integer | When"),
        ("fs/readDirectory", "| `entries[].fileNameBase64` | base64 | absent | The name's"),
        ("command/exec", "| `stdout` | null | Always"),
    ],
)
def test_a_row_tells_type_and_default(method: str, row: str) -> None:
    """One of each kind of type."""
    assert f"\n{row}" in section(method)


def test_columns_are_the_same_in_every_row() -> None:
    """No stray bar breaks a table."""
    tables = [block for block in reference.markdown().split("\n\n") if block.startswith("|")]
    assert tables
    for table in tables:
        assert len({line.count("|") for line in table.splitlines()}) == 1
