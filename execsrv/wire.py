"""Converts between the dataclasses of ``protocol/`` and the JSON objects of the wire.

``snake_case`` becomes ``camelCase`` and ``null`` means absent; ``bytes`` come as base64 text and go as they are, for
``jsonrpc`` to write. Values are not checked: the schemas have done that before.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import pybase64

T = TypeVar("T")
Converter = Callable[[Any], Any]

#: What ``to_wire`` needs of a _Member, in a tuple, which is quicker to go through: a listing has thousands of entries.
_Writer: TypeAlias = tuple[str, str, Converter | None, bool]


def camel_case(name: str) -> str:
    """``exit_code`` -> ``exitCode``."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def encode_base64(data: bytes) -> str:
    """Standard, padded base64 text of ``data`` (RFC 4648 section 4)."""
    return pybase64.b64encode_as_string(data)


def decode_base64(text: str) -> bytes:
    """The bytes of standard, padded base64.

    Raises ValueError (``binascii.Error``) for anything else, also for characters outside the alphabet.
    """
    return pybase64.b64decode(text, validate=True)


def from_wire(cls: type[T], fields: dict[str, Any]) -> T:
    """Make ``cls`` from a JSON object that its schema has accepted; unknown members are ignored.

    Raises ValueError when a field for ``bytes`` is not base64, and TypeError when a required field is missing.
    """
    known = {}
    for member in _members(cls):
        value = fields.get(member.name)
        if value is not None:
            known[member.attribute] = member.decode(value)
        elif member.pass_none:
            known[member.attribute] = None
    return cls(**known)


def to_wire(value: Any) -> dict[str, Any]:
    """The members of a dataclass by their names on the wire; bytes stay bytes.

    A field marked ``omit_none`` is left out when it is None.
    """
    fields = {}
    for attribute, name, encode, omit_none in _writers(type(value)):
        content = getattr(value, attribute)
        if content is not None:
            fields[name] = encode(content) if encode else content
        elif not omit_none:
            fields[name] = None
    return fields


def to_json(value: Any) -> Any:
    """The JSON value of what ``to_wire`` gives: bytes become base64 text."""
    if isinstance(value, bytes):
        return encode_base64(value)
    if isinstance(value, dict):
        return {name: to_json(member) for name, member in value.items()}
    return [to_json(item) for item in value] if isinstance(value, list) else value


@dataclasses.dataclass(frozen=True, slots=True)
class _Member:
    """A field: its names on both sides and how its value gets across, unless that is None.

    pass_none: the field takes None and has no default, so that None must be given.
    omit_none: None is not written.
    """

    attribute: str
    name: str
    decode: Converter
    encode: Converter
    pass_none: bool
    omit_none: bool


def _find_members(cls: type) -> list[_Member]:
    hints = typing.get_type_hints(cls)
    return [_member(field, hints[field.name]) for field in dataclasses.fields(cls)]


def _member(field: dataclasses.Field[Any], hint: Any) -> _Member:
    required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    pass_none = required and _is_union(hint)
    omit_none = field.metadata.get("omit_none", False)
    return _Member(field.name, camel_case(field.name), *_converters(hint), pass_none, omit_none)


_members: Callable[[type], list[_Member]] = functools.cache(_find_members)


def _find_writers(cls: type) -> list[_Writer]:
    return [
        (member.attribute, member.name, None if member.encode is _same else member.encode, member.omit_none)
        for member in _members(cls)
    ]


_writers: Callable[[type], list[_Writer]] = functools.cache(_find_writers)


def _converters(hint: Any) -> tuple[Converter, Converter]:
    """How a value of the type ``hint``, or ``hint | None``, comes from JSON and goes to JSON."""
    if _is_union(hint):
        hint = next(part for part in typing.get_args(hint) if part is not types.NoneType)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return functools.partial(from_wire, hint), to_wire
    if hint is bytes:
        return decode_base64, _same
    if hint is int:
        return int, _same  # JSON Schema counts 1.0 as an integer
    if typing.get_origin(hint) is list:
        decode, encode = _converters(typing.get_args(hint)[0])
        return functools.partial(_each, decode), functools.partial(_each, encode)
    return _same, _same


def _is_union(hint: Any) -> bool:
    """Both kinds: ``X | Y``, and the one that it becomes when X is no class."""
    return typing.get_origin(hint) in (types.UnionType, typing.Union)


def _each(convert: Converter, values: list[Any]) -> list[Any]:
    return [convert(value) for value in values]


def _same(value: Any) -> Any:
    return value
