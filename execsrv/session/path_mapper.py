"""Translates between the paths of a session and those of the machine where its commands and files are."""

from __future__ import annotations

import posixpath
import re


class PathMapper:
    """Maps what lies in ``local_root`` to the same place in ``remote_root``, and back.

    Both are absolute POSIX paths; a root lies in itself. Paths are compared by whole components and as text, so
    ``.``, ``..`` and doubled slashes count, but nobody looks for links: ``/root/../x`` is outside of ``/root``.

    A path outside stays as it is. Of one inside, what follows the root stays as it is: it is for the system that has
    the file to say where ``link/..`` leads, and that ``file/`` is wrong.

    Raises ValueError for a root that is not absolute.
    """

    def __init__(self, local_root: str, remote_root: str) -> None:
        self._local_root = _checked_root(local_root)
        self._remote_root = _checked_root(remote_root)

    def to_remote(self, path: str) -> str:
        """Where the executor has what the session calls ``path``."""
        return _move(path, self._local_root, self._remote_root)

    def to_local(self, path: str) -> str:
        """What the session calls ``path`` of the executor."""
        return _move(path, self._remote_root, self._local_root)


def _checked_root(path: str) -> str:
    if not posixpath.isabs(path):
        raise ValueError(f"a root must be an absolute path, not {path!r}")
    return posixpath.normpath(path)


def _move(path: str, old_root: str, new_root: str) -> str:
    end = _end_of_root(path, _components(old_root))
    return path if end is None else new_root.rstrip("/") + path[end:] or "/"


def _end_of_root(path: str, root: list[str]) -> int | None:
    """Where in ``path`` that what follows lies in ``root`` begins; None when the path leads elsewhere."""
    if not posixpath.isabs(path):
        return None
    end = None if root else 0
    names: list[str] = []
    for component in re.finditer("[^/]+", path):
        _step(names, component[0])
        if names[: len(root)] != root:
            end = None
        elif end is None:
            end = component.end()
    return end


def _step(names: list[str], name: str) -> None:
    """Go from the directory with these ``names`` to ``name``."""
    if name == "..":
        del names[-1:]  # nothing is above the root directory but itself
    elif name != ".":
        names.append(name)


def _components(path: str) -> list[str]:
    return re.findall("[^/]+", path)
