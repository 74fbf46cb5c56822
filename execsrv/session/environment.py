"""Where a session's files are: the operations that every place offers, and what they take and give."""

from __future__ import annotations

import dataclasses
from typing import Protocol


@dataclasses.dataclass(frozen=True, slots=True)
class CreateDirectoryOptions:
    """recursive: create those above it, too, and take one that is there already."""

    recursive: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class RemoveOptions:
    """recursive: also a directory with content. force: what is not there counts as removed."""

    recursive: bool = False
    force: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class CopyOptions:
    """recursive: also a directory, which is merged into one that is there."""

    recursive: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class FileMetadata:
    """What a path is, or leads to when it is a link; times in ms since 1970, 0 for one that is not known."""

    is_directory: bool
    is_file: bool
    created_at_ms: int
    modified_at_ms: int


@dataclasses.dataclass(frozen=True, slots=True)
class ReadDirectoryEntry:
    """One name in a directory, and what it is itself: a link is not followed.

    file_name: as ``os.fsdecode`` makes it.
    """

    file_name: str
    is_directory: bool
    is_file: bool
    is_symlink: bool


class ExecutorFileSystem(Protocol):
    """Files as a session sees them.

    Paths are absolute, str as ``os.fsdecode`` makes them, and those of the session: who has the files elsewhere maps
    them. Every method raises FileNotFoundError, PermissionError, FileExistsError, NotADirectoryError,
    IsADirectoryError or another OSError; ValueError for a path that is not absolute.
    """

    def read_file(self, path: str) -> bytes:
        """The content of a regular file."""

    def write_file(self, path: str, contents: bytes) -> None:
        """Make ``contents`` that of a file, which is created if need be."""

    def create_directory(self, path: str, options: CreateDirectoryOptions = CreateDirectoryOptions()) -> None:
        """Create a directory."""

    def get_metadata(self, path: str) -> FileMetadata:
        """What ``path`` is, or leads to."""

    def read_directory(self, path: str) -> list[ReadDirectoryEntry]:
        """The entries of a directory, in no order."""

    def remove(self, path: str, options: RemoveOptions = RemoveOptions()) -> None:
        """Remove a file, a link or a directory."""

    def copy(self, source_path: str, destination_path: str, options: CopyOptions = CopyOptions()) -> None:
        """Copy a file, a link or a directory."""


@dataclasses.dataclass(frozen=True, slots=True)
class Environment:
    """Where a session works."""

    file_system: ExecutorFileSystem
