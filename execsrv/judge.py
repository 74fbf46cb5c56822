"""Judges values by a JSON Schema, and words what is wrong.

jsonschema-rs gives the verdict, since it is about a hundred times faster; jsonschema gives the words, and is only
imported when something is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import jsonschema_rs

if TYPE_CHECKING:
    from jsonschema import ValidationError

Path: TypeAlias = Sequence[str | int]

#: Longest piece of a peer's value, or of a field's name, in a message; what is longer loses its middle. Characters.
LONGEST_QUOTE = 200


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a value. As a str: the field and its fault.

    keyword: that of the rule that is broken, such as ``minimum``.
    field: where, such as ``params.argv[1]``.
    words: what is wrong there.
    """

    keyword: str
    field: str
    words: str

    def __str__(self) -> str:
        return f"{self.field}: {self.words}"


class Judge:
    """Judges values by one schema of draft 2020-12, which is complete in itself.

    name: what faults call the value as a whole.
    """

    def __init__(self, name: str, schema: dict[str, Any]) -> None:
        self._name = name
        self._schema = schema
        self._validator = jsonschema_rs.Draft202012Validator(schema)

    def fault(self, value: Any) -> Fault | None:
        """What is wrong with ``value``, or the first thing of several; None when nothing is."""
        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return self._worded(value, error)
        except ValueError:  # it can't look at lone surrogates, nor show what is nested deeper than 255
            return self._judged_slowly(value)
        return None

    def _worded(self, value: Any, found: jsonschema_rs.ValidationError) -> Fault:
        """Word a fault by giving jsonschema the faulty value and the broken rule alone, since it is slow."""
        *place, keyword = found.schema_path
        rule = _alone(_follow(self._schema, place), str(keyword))
        error = _first_error(rule, _follow(value, found.instance_path))
        if error is None:  # the two libraries disagree
            return Fault(str(keyword), self._field(found.instance_path), _clipped(found.message))
        return self._told(found.instance_path, error)

    def _judged_slowly(self, value: Any) -> Fault | None:
        try:
            error = _first_error(self._schema, value)
        except RecursionError:
            return Fault("", self._name, "nested too deep")
        return None if error is None else self._told(error.absolute_path, error)

    def _told(self, path: Iterable[str | int], error: ValidationError) -> Fault:
        if error.validator == "required":
            missing = next(name for name in error.validator_value if name not in error.instance)
            return Fault(error.validator, self._field([*path, missing]), "is missing")
        if error.validator == "additionalProperties":
            unknown = next(name for name in error.instance if name not in error.schema.get("properties", {}))
            return Fault(error.validator, self._field([*path, unknown]), "is not known")
        return Fault(error.validator, self._field(path), _clipped(error.message))

    def _field(self, path: Iterable[str | int]) -> str:
        """``params.argv[1]``; what can't be printed in a name is escaped, since messages are logged."""
        steps = (f"[{step}]" if isinstance(step, int) else f".{repr(step)[1:-1]}" for step in path)
        return _clipped(self._name + "".join(steps))


def _alone(rule: dict[str, Any], keyword: str) -> dict[str, Any]:
    """``rule`` with one keyword only, and with the names that ``additionalProperties`` is about."""
    alone = {keyword: rule[keyword]}
    if keyword == "additionalProperties":
        alone["properties"] = dict.fromkeys(rule.get("properties", {}), True)
    return alone


def _first_error(rule: dict[str, Any], value: Any) -> ValidationError | None:
    from jsonschema import Draft202012Validator  # here, since it takes 50 ms and is seldom needed

    return next(Draft202012Validator(rule).iter_errors(value), None)


def _follow(node: Any, path: Iterable[str | int]) -> Any:
    for step in path:
        node = node[step]
    return node


def _clipped(text: str) -> str:
    half = LONGEST_QUOTE // 2
    return text if len(text) <= LONGEST_QUOTE else f"{text[:half]}...{text[-half:]}"
