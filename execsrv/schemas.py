"""The JSON Schema files: finds them, judges params and results by them, and words what is wrong.

jsonschema-rs gives the verdict, since it is about a hundred times faster; jsonschema gives the words, and is only
imported when something is wrong. Nothing else in the package describes params.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import jsonschema_rs

from execsrv.errors import InvalidParams

if TYPE_CHECKING:
    from jsonschema import ValidationError

#: Who sends a method's message, and whether it wants an answer: the ``x-kind`` of its file.
Kind: TypeAlias = Literal["request", "clientNotification", "serverNotification"]
Part: TypeAlias = Literal["params", "result"]

#: Longest piece of a peer's value, or of a field's name, in a message; what is longer loses its middle. Characters.
LONGEST_QUOTE = 200

_PACKAGE = Path(__file__).parent
_COMMON = "common"


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
        _validator(method, "params")


def validate_params(method: str, params: Any) -> dict[str, Any]:
    """``params`` when they have the shape that ``method`` wants; None counts as an empty object.

    Raises InvalidParams, with the field and its fault in the message, and KeyError when there is no such method.
    """
    if params is None:
        params = {}
    fault = _fault(method, "params", params)
    if fault is not None:
        raise InvalidParams(fault)
    return params if isinstance(params, dict) else {}  # only a method that ignores its params takes another type


def validate_result(method: str, result: Any) -> None:
    """Raises ValueError, with the field and its fault, when ``result`` is none that ``method`` may have."""
    fault = _fault(method, "result", result)
    if fault is not None:
        raise ValueError(fault)


# ---- files ---------------------------------------------------------------------------------------------------------


@functools.cache
def _files() -> dict[str, Path]:
    """Method to file. ``process/start`` is in ``process.start.json``."""
    return {path.stem.replace(".", "/"): path for path in _folder().glob("*.json") if path.stem != _COMMON}


@functools.cache
def _folder() -> Path:
    """Where the files are: inside an installed package, beside the package in a checkout (also an editable one)."""
    inside = _PACKAGE / "_schemas"
    return inside if inside.is_dir() else _PACKAGE.parent / "schemas"


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
    definitions: dict[str, Any] = _load(_folder() / f"{_COMMON}.json")["$defs"]
    return definitions


# ---- verdict and words ---------------------------------------------------------------------------------------------


@functools.cache
def _part(method: str, part: Part) -> dict[str, Any]:
    found: dict[str, Any] = schema(method)["properties"][part]
    return found


@functools.cache
def _validator(method: str, part: Part) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(_part(method, part))


def _fault(method: str, part: Part, value: Any) -> str | None:
    """What is wrong with ``value`` and where; None when nothing is."""
    try:
        _validator(method, part).validate(value)
    except jsonschema_rs.ValidationError as fault:
        return _worded(method, part, value, fault)
    except ValueError:  # it can't look at lone surrogates, nor show what is nested deeper than 255
        return _judged_slowly(method, part, value)
    return None


def _worded(method: str, part: Part, value: Any, fault: jsonschema_rs.ValidationError) -> str:
    """Word a fault by giving jsonschema the faulty value and the broken rule alone, since it is slow."""
    rule = {str(fault.schema_path[-1]): _follow(_part(method, part), fault.schema_path)}
    error = _first_error(rule, _follow(value, fault.instance_path))
    if error is None:  # the two libraries disagree
        return f"{_field(part, fault.instance_path)}: {_clipped(fault.message)}"
    return _sentence(part, fault.instance_path, error)


def _judged_slowly(method: str, part: Part, value: Any) -> str | None:
    try:
        error = _first_error(_part(method, part), value)
    except RecursionError:
        return f"{part}: nested too deep"
    return None if error is None else _sentence(part, error.absolute_path, error)


def _first_error(rule: dict[str, Any], value: Any) -> ValidationError | None:
    from jsonschema import Draft202012Validator  # here, since it takes 50 ms and is seldom needed

    return next(Draft202012Validator(rule).iter_errors(value), None)


def _sentence(part: Part, path: Iterable[str | int], error: ValidationError) -> str:
    if error.validator == "required":
        missing = next(name for name in error.validator_value if name not in error.instance)
        return f"{_field(part, [*path, missing])}: is missing"
    return f"{_field(part, path)}: {_clipped(error.message)}"


def _field(part: Part, path: Iterable[str | int]) -> str:
    """``params.argv[1]``; what can't be printed in a name is escaped, since messages are logged."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{repr(step)[1:-1]}" for step in path)
    return _clipped(part + "".join(steps))


def _follow(node: Any, path: Iterable[str | int]) -> Any:
    for step in path:
        node = node[step]
    return node


def _clipped(text: str) -> str:
    half = LONGEST_QUOTE // 2
    return text if len(text) <= LONGEST_QUOTE else f"{text[:half]}...{text[-half:]}"
