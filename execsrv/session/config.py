"""A session's settings, read from TOML: where its commands and files are, what it offers and how much.

Keys and defaults are those that Codex has in its ``config.toml``, so one file serves both; that file has many keys
more, which are of no effect here.
"""

from __future__ import annotations

import logging
import os
import posixpath
import reprlib
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from execsrv.config import KIB

logger = logging.getLogger(__name__)

Table: TypeAlias = dict[str, Any]
Readers: TypeAlias = Mapping[str, Callable[[Any], object]]


class ConfigError(ValueError):
    """A setting can't be what it is: ``key`` ("" for the whole text) and its ``fault``."""

    def __init__(self, key: str, fault: str) -> None:
        super().__init__(f"{key}: {fault}" if key else fault)
        self.key = key
        self.fault = fault


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """What a session is told. The names are those of the keys.

    experimental_unified_exec_use_exec_server: a server has the commands and files; else they are this program's.
    experimental_unified_exec_exec_server_websocket_url: the server to connect to.
    experimental_unified_exec_spawn_local_exec_server: without a URL, start a server that ends with the session;
    else the session is its own server.
    experimental_unified_exec_exec_server_workspace_root: the directory of the server that stands for the local root;
    None maps no path.
    experimental_unified_exec_exec_server_local_root: the local root; None is the working directory.
    experimental_supported_tools: tools to offer, whatever the model says that it knows.
    project_doc_max_bytes: the most that is taken of project docs, all together; 0 reads none.
    project_doc_fallback_filenames: names that a project doc may have besides its usual ones.
    project_root_markers: a directory that has one of these is a project's root.
    background_terminal_max_timeout: longest wait for output of a command that runs on, in milliseconds.
    """

    experimental_unified_exec_use_exec_server: bool = False
    experimental_unified_exec_spawn_local_exec_server: bool = False
    experimental_unified_exec_exec_server_websocket_url: str | None = None
    experimental_unified_exec_exec_server_workspace_root: str | None = None
    experimental_unified_exec_exec_server_local_root: str | None = None
    experimental_supported_tools: tuple[str, ...] = ()
    project_doc_max_bytes: int = 32 * KIB
    project_doc_fallback_filenames: tuple[str, ...] = ()
    project_root_markers: tuple[str, ...] = (".git",)
    background_terminal_max_timeout: int = 300_000


def load_config(source: str | os.PathLike[str], profile: str | None = None) -> SessionConfig:
    """Read settings from TOML: a text as str, or a file by an object that has its path.

    profile: the table ``profiles.NAME`` whose settings win over those of the top level.

    The whole text is checked, whatever the profile: a key that is not known is logged as a warning. Raises
    ConfigError for a value that can't be, a profile that is not there and what is not TOML, and OSError.
    """
    document = _parse(source)
    tables = _table("profiles", document.pop("profiles", {}))
    settings = _read_level(document, "")
    profiles = {name: _read_level(_table(f"profiles.{name}", tables[name]), f"profiles.{name}.") for name in tables}
    if profile is None:
        return SessionConfig(**settings)
    if profile not in profiles:
        raise ConfigError(f"profiles.{profile}", "there is no such profile")
    return SessionConfig(**settings | profiles[profile])


def _parse(source: str | os.PathLike[str]) -> Table:
    try:
        return tomllib.loads(source if isinstance(source, str) else Path(source).read_text(encoding="utf-8"))
    except ValueError as error:  # what is not TOML, or not UTF-8
        raise ConfigError("", f"the settings are not TOML: {error}") from error


def _read_level(table: Table, prefix: str) -> Table:
    """The settings of the top level or of a profile. Between two names of one setting the newer one wins."""
    features = _read(_table(f"{prefix}features", table.pop("features", {})), f"{prefix}features.", _FEATURES)
    settings = _read(table, prefix, _SETTINGS)
    return {_RENAMED_FEATURES[name]: value for name, value in features.items()} | settings


def _read(table: Table, prefix: str, readers: Readers) -> Table:
    values = {}
    for key, value in table.items():
        if key not in readers:
            logger.warning("a key in the session's settings is not known: %s%s", prefix, key)
            continue
        try:
            values[key] = readers[key](value)
        except ValueError as error:
            raise ConfigError(prefix + key, f"{error}, not {reprlib.repr(value)}") from None
    return values


def _table(key: str, value: object) -> Table:
    if not isinstance(value, dict):
        raise ConfigError(key, f"must be a table, not {reprlib.repr(value)}")
    return value


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError("must be a whole number, 0 or more")
    return value


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a string")
    return value


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("must be an array of strings")
    return tuple(value)


def _url(value: object) -> str | None:
    return _string(value).strip() or None


def _local_directory(value: object) -> str:
    if not os.path.isabs(_string(value)):
        raise ValueError("must be an absolute path")
    return _string(value)


def _server_directory(value: object) -> str:
    if not posixpath.isabs(_string(value)):
        raise ValueError("must be an absolute path")
    return _string(value)


_SETTINGS: Readers = {
    "experimental_unified_exec_use_exec_server": _boolean,
    "experimental_unified_exec_spawn_local_exec_server": _boolean,
    "experimental_unified_exec_exec_server_websocket_url": _url,
    "experimental_unified_exec_exec_server_workspace_root": _server_directory,
    "experimental_unified_exec_exec_server_local_root": _local_directory,
    "experimental_supported_tools": _strings,
    "project_doc_max_bytes": _count,
    "project_doc_fallback_filenames": _strings,
    "project_root_markers": _strings,
    "background_terminal_max_timeout": _count,
}

#: What the table ``features`` may hold: switches that are settings by now.
_RENAMED_FEATURES = {"experimental_exec_server": "experimental_unified_exec_use_exec_server"}
_FEATURES = {feature: _SETTINGS[key] for feature, key in _RENAMED_FEATURES.items()}
