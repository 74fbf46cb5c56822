"""Converts between the dataclasses of ``protocol.py`` and the JSON objects of the wire.

``snake_case`` becomes ``camelCase``, ``bytes`` become base64 text, ``null`` means absent. Values are not checked:
the schemas have done that before.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable
from typing import Any, TypeVar

import pybase64

T = TypeVar("T")
Converter = Callable[[Any], Any]


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
    """Make ``cls`` from a JSON object that its schema has accepted; unknown members are ignored."""
    known = {}
    for attribute, name, convert in _decoders(cls):
        value = fields.get(name)
        if value is not None:
            known[attribute] = convert(value)
    return cls(**known)


def to_wire(value: Any) -> dict[str, Any]:
    """The JSON object of a dataclass. A field marked ``omit_none`` is left out when it is None."""
    fields = {name: convert(getattr(value, attribute)) for attribute, name, convert in _encoders(type(value))}
    for name in _omitted(type(value)):
        if fields[name] is None:
            del fields[name]
    return fields


@functools.cache
def _decoders(cls: type) -> list[tuple[str, str, Converter]]:
    hints = typing.get_type_hints(cls)
    return [(f.name, camel_case(f.name), _decoder(hints[f.name])) for f in dataclasses.fields(cls)]


@functools.cache
def _encoders(cls: type) -> list[tuple[str, str, Converter]]:
    hints = typing.get_type_hints(cls)
    return [(f.name, camel_case(f.name), _encoder(hints[f.name])) for f in dataclasses.fields(cls)]


@functools.cache
def _omitted(cls: type) -> list[str]:
    return [camel_case(f.name) for f in dataclasses.fields(cls) if f.metadata.get("omit_none")]


def _decoder(hint: Any) -> Converter:
    hint = _without_none(hint)
    if dataclasses.is_dataclass(hint):
        return functools.partial(from_wire, hint)
    if hint is int:
        return int  # JSON Schema counts 1.0 as an integer
    return _same


def _encoder(hint: Any) -> Converter:
    optional = _without_none(hint) is not hint
    hint = _without_none(hint)
    convert: Converter = _same
    if dataclasses.is_dataclass(hint):
        convert = to_wire
    elif hint is bytes:
        convert = encode_base64
    elif typing.get_origin(hint) is list and dataclasses.is_dataclass(typing.get_args(hint)[0]):
        convert = _list_to_wire
    return functools.partial(_unless_none, convert) if optional and convert is not _same else convert


def _without_none(hint: Any) -> Any:
    """``X`` of ``X | None``; any other hint as it is."""
    if isinstance(hint, types.UnionType):
        return next(part for part in typing.get_args(hint) if part is not types.NoneType)
    return hint


def _list_to_wire(values: list[Any]) -> list[dict[str, Any]]:
    return [to_wire(value) for value in values]


def _unless_none(convert: Converter, value: Any) -> Any:
    return None if value is None else convert(value)


def _same(value: Any) -> Any:
    return value
