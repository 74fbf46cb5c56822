"""The server's options from environment variables, for where another program has the command line."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass

from argparse_addons import Integer

from execsrv.config import LIMITS, ExecServerConfig


class OptionError(ValueError):
    """The value of a variable makes no sense; the message is for people."""


@dataclass(frozen=True, slots=True)
class Options:
    """The limits; the web pages and host names that are let in; may other machines reach the server?"""

    config: ExecServerConfig
    allow_origins: tuple[str, ...]
    allow_hosts: tuple[str, ...]
    insecure_no_auth: bool


def options_of(variables: Mapping[str, str]) -> Options:
    """What the variables say that are named like the options: ``EXECSRV_MAX_CONNECTIONS`` is ``--max-connections``.

    Lists are separated by blanks, a flag is 1 or 0; an empty variable says nothing. Raises OptionError.
    """
    return Options(
        ExecServerConfig(**{field: _number(variables, field) for field in LIMITS if _text(variables, field)}),
        tuple(_text(variables, "allow_origin").split()),
        tuple(_text(variables, "allow_host").split()),
        _flag(variables, "insecure_no_auth"),
    )


def _variable(option: str) -> str:
    return f"EXECSRV_{option.upper()}"


def _text(variables: Mapping[str, str], option: str) -> str:
    return variables.get(_variable(option), "")


def _number(variables: Mapping[str, str], field: str) -> int:
    minimum, maximum, _ = LIMITS[field]
    text = _text(variables, field)
    try:
        return int(Integer(minimum, maximum)(text))
    except argparse.ArgumentTypeError as error:
        raise OptionError(f"{_variable(field)}: {error}") from None
    except ValueError:
        raise OptionError(f"{_variable(field)}: {text!r} is not an integer") from None


def _flag(variables: Mapping[str, str], option: str) -> bool:
    value = _text(variables, option)
    if value not in ("", "0", "1"):
        raise OptionError(f"{_variable(option)}: {value!r} is neither 1 nor 0")
    return value == "1"
