"""Reads what a project has to say to an agent: its files ``AGENTS.md``, from its root down to where a session works.

They are looked for where the session's files are, so a project on another machine speaks for itself.
"""

from __future__ import annotations

import codecs
import logging
import os
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import TypeVar

from execsrv.session.config import SessionConfig
from execsrv.session.environment import Environment, ExecutorFileSystem

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: The usual names, the one that wins first.
FILE_NAMES = ("AGENTS.override.md", "AGENTS.md")

#: Stands between the user's instructions and the project's, so that a model can tell them apart; as Codex has it.
SEPARATOR = "\n\n--- project-doc ---\n\n"


def read_project_docs(
    config: SessionConfig, cwd: str, environment: Environment, user_instructions: str | None = None
) -> str | None:
    """The user's instructions and, after them, those of the project in which ``cwd`` lies; None when there are none.

    A project's root is the nearest directory, from ``cwd`` upwards, that has one of ``project_root_markers``;
    without one ``cwd`` stands alone. From the root down to ``cwd`` each directory gives its first file of the usual
    names and ``project_doc_fallback_filenames``. They are joined by a blank line, and cut where all together would
    be longer than ``project_doc_max_bytes``, which is logged.

    Raises OSError for what can't be looked at or read, save that it is not there; ValueError when ``cwd`` is not
    absolute.
    """
    docs = _read_docs(config, PurePath(os.path.normpath(cwd)), environment.file_system)
    return SEPARATOR.join(filter(None, [user_instructions, "\n\n".join(docs)])) or None


def _read_docs(config: SessionConfig, cwd: PurePath, files: ExecutorFileSystem) -> list[str]:
    docs = []
    left = config.project_doc_max_bytes
    for path in _find_docs(config, cwd, files) if left else []:
        data = _if_there(files.read_file, path) or b""
        if not _text(data).strip():
            continue
        if len(data) > left:
            logger.warning("of the %d bytes of the project doc %s only %d are taken", len(data), path, left)
        docs.append(_text(data[:left]))
        left -= min(len(data), left)
    return list(filter(None, docs))


def _text(data: bytes) -> str:
    """UTF-8, wrong bytes replaced; a character that is cut at the end is left out."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data)


def _find_docs(config: SessionConfig, cwd: PurePath, files: ExecutorFileSystem) -> list[str]:
    names = (*FILE_NAMES, *config.project_doc_fallback_filenames)
    found = [_first_file(directory, names, files) for directory in _directories(config, cwd, files)]
    return list(filter(None, found))


def _first_file(directory: PurePath, names: Iterable[str], files: ExecutorFileSystem) -> str | None:
    for path in map(str, map(directory.joinpath, names)):
        metadata = _if_there(files.get_metadata, path)
        if metadata and metadata.is_file:
            return path
    return None


def _directories(config: SessionConfig, cwd: PurePath, files: ExecutorFileSystem) -> list[PurePath]:
    """From the project's root to ``cwd``."""
    upwards = [cwd, *cwd.parents]
    for depth, directory in enumerate(upwards):
        if any(_if_there(files.get_metadata, str(directory / marker)) for marker in config.project_root_markers):
            return upwards[depth::-1]
    return [cwd]


def _if_there(ask: Callable[[str], T], path: str) -> T | None:
    try:
        return ask(path)
    except FileNotFoundError:
        return None
