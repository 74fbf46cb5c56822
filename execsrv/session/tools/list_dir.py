"""The tool ``list_dir``: a page of the entries of a directory and of those below it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from execsrv.session.environment import ExecutorFileSystem, ReadDirectoryEntry
from execsrv.session.tools.result import ToolFault, ToolResult, file_faults
from execsrv.session.tools.text import shown

#: What the model is told of an argument that is out of its bounds.
REFUSALS = {
    "dir_path": "dir_path must be an absolute path",
    "offset": "offset must be a 1-indexed entry number",
    "limit": "limit must be greater than zero",
    "depth": "depth must be greater than zero",
}

#: How many entries a call walks over at most, those before its page included: each directory among them may cost a
#: round trip.
MAX_ENTRIES = 10_000


def list_dir(
    file_system: ExecutorFileSystem, dir_path: str, offset: int = 1, limit: int = 25, depth: int = 2
) -> ToolResult:
    """A page of a directory's entries, sorted, those of a directory right below it and two spaces further in.

    A name has ``/`` after it for a directory, ``@`` for a link, which is not followed, and ``?`` for what is no
    regular file either. Directories are only read as far as the page needs it; where one below the first can't
    be, the entry below its own says so.

    offset: the number of the first entry, counted from 1. limit: how many at most. depth: how many levels.

    Raises ToolFault when there is no such directory or entry, or MAX_ENTRIES come before it.
    """
    _check_is_directory(file_system, dir_path)
    entries = _walk(file_system, dir_path, depth)
    skipped = sum(1 for _ in islice(entries, min(offset, MAX_ENTRIES) - 1))
    limit = min(limit, MAX_ENTRIES - skipped)
    page = list(islice(entries, limit + 1))
    if skipped and not page:
        raise ToolFault("offset exceeds directory entry count")
    if offset > MAX_ENTRIES and page:
        raise ToolFault(f"only the first {MAX_ENTRIES} entries are listed: list a directory further down")
    if len(page) > limit:
        page[limit:] = [f"More than {limit} entries found"]
    return ToolResult("\n".join([f"Absolute path: {dir_path}", *page]))


def _check_is_directory(file_system: ExecutorFileSystem, path: str) -> None:
    with file_faults(f"unable to access `{path}`"):
        metadata = file_system.get_metadata(path)
    if not metadata.is_directory:
        raise ToolFault(f"`{path}` is not a directory")


@dataclass(frozen=True, slots=True)
class _Found:
    """An entry, where it is, and how many directories below the first."""

    entry: ReadDirectoryEntry
    path: str
    level: int

    @property
    def line(self) -> str:
        name = shown(self.entry.file_name).replace("\n", "\\n")  # an entry is one line
        return "  " * self.level + name + _mark(self.entry)


def _walk(file_system: ExecutorFileSystem, top: str, depth: int) -> Iterator[str]:
    """The line of every entry. A directory is not read before the entry after it is asked for."""
    to_come = _last_first(file_system, top, 0)
    while to_come:
        found = to_come.pop()
        yield found.line
        below = found.level + 1
        if _mark(found.entry) == "/" and below < depth:
            try:
                to_come += _last_first(file_system, found.path, below)
            except ToolFault as fault:
                yield "  " * below + str(fault)


def _last_first(file_system: ExecutorFileSystem, directory: str, level: int) -> list[_Found]:
    with file_faults("failed to read directory"):
        entries = file_system.read_directory(directory)
    entries.sort(key=lambda entry: entry.file_name, reverse=True)
    return [_Found(entry, posixpath.join(directory, entry.file_name), level) for entry in entries]


def _mark(entry: ReadDirectoryEntry) -> str:
    if entry.is_symlink:
        return "@"
    if entry.is_directory:
        return "/"
    return "" if entry.is_file else "?"
