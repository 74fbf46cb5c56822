"""The JSON Schema files: finds them, and judges params and results by them.

Nothing else in the package describes params.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any, Literal, TypeAlias

from execsrv.errors import InvalidParams
from execsrv.judge import Judge

#: Who sends a method's message, and whether it wants an answer: the ``x-kind`` of its file.
Kind: TypeAlias = Literal["request", "clientNotification", "serverNotification"]
Part: TypeAlias = Literal["params", "result"]

_PACKAGE = Path(__file__).parent
_COMMON = "common"


@functools.cache
def folder() -> Path:
    """Where the files are: inside an installed package, beside the package in a checkout (also an editable one)."""
    inside = _PACKAGE / "_schemas"
    return inside if inside.is_dir() else _PACKAGE.parent / "schemas"


def methods() -> list[str]:
    """The names of all methods and notifications, sorted."""
    return sorted(_files())


def schema(method: str) -> dict[str, Any]:
    """The schema of ``method``, complete in itself: references to shared parts are replaced by those parts.

    Raises KeyError when there is no such method.
    """
    document: dict[str, Any] = _resolved(_load(_files()[method]))
    return document


def kind(method: str) -> Kind:
    """Which kind of message ``method`` is. Raises KeyError when there is no such method."""
    found: Kind = schema(method)["x-kind"]
    return found


def load_all() -> None:
    """Read all files now: later there may be no descriptor left for that."""
    for method in methods():
        _judge(method, "params")


def validate_params(method: str, params: Any) -> dict[str, Any]:
    """``params`` when they have the shape that ``method`` wants; None counts as an empty object.

    Raises InvalidParams, with the field and its fault in the message, and KeyError when there is no such method.
    """
    if params is None:
        params = {}
    fault = _judge(method, "params").fault(params)
    if fault is not None:
        raise InvalidParams(str(fault))
    return params if isinstance(params, dict) else {}  # only a method that ignores its params takes another type


def validate_result(method: str, result: Any) -> None:
    """Raises ValueError, with the field and its fault, when ``result`` is none that ``method`` may have."""
    fault = _judge(method, "result").fault(result)
    if fault is not None:
        raise ValueError(str(fault))


# ---- files ---------------------------------------------------------------------------------------------------------


@functools.cache
def _files() -> dict[str, Path]:
    """Method to file. ``process/start`` is in ``process.start.json``."""
    return {path.stem.replace(".", "/"): path for path in folder().glob("*.json") if path.stem != _COMMON}


def _load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _resolved(node: Any) -> Any:
    """``node`` with every ``$ref`` replaced by the shared part; what stands beside the reference wins."""
    if isinstance(node, list):
        return [_resolved(item) for item in node]
    if not isinstance(node, dict):
        return node
    own = {name: _resolved(value) for name, value in node.items() if name != "$ref"}
    return {**_resolved(_shared(node["$ref"])), **own} if "$ref" in node else own


def _shared(reference: str) -> Any:
    """The part that ``common.json#/$defs/NAME`` names."""
    return _definitions()[reference.rpartition("/")[2]]


@functools.cache
def _definitions() -> dict[str, Any]:
    definitions: dict[str, Any] = _load(folder() / f"{_COMMON}.json")["$defs"]
    return definitions


@functools.cache
def _judge(method: str, part: Part) -> Judge:
    return Judge(part, schema(method)["properties"][part])
