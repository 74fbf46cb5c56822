"""Params and results of the ``fs/*`` methods."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(slots=True)
class PathParams:
    """Params of the file methods that take a path and nothing else."""

    path: str


@dataclass(slots=True)
class ReadFileResult:
    """Result of ``fs/readFile``."""

    data_base64: bytes


@dataclass(slots=True)
class WriteFileParams:
    """Params of ``fs/writeFile``."""

    path: str
    data_base64: str


@dataclass(slots=True)
class CreateDirectoryParams:
    """Params of ``fs/createDirectory``."""

    path: str
    recursive: bool = True


@dataclass(slots=True)
class Metadata:
    """Result of ``fs/getMetadata``: of the target, save ``is_symlink``, which is of the path itself."""

    is_directory: bool
    is_file: bool
    is_symlink: bool
    size: int
    created_at_ms: int
    modified_at_ms: int


@dataclass(slots=True)
class DirectoryEntry:
    """One entry of ``fs/readDirectory``; links are not followed.

    ``file_name_base64`` holds the bytes of a name that is not UTF-8.
    """

    file_name: str
    is_directory: bool
    is_file: bool
    is_symlink: bool
    file_name_base64: bytes | None = field(default=None, metadata={"omit_none": True})


@dataclass(slots=True)
class ReadDirectoryResult:
    """Result of ``fs/readDirectory``."""

    entries: list[DirectoryEntry]


@dataclass(slots=True)
class RemoveParams:
    """Params of ``fs/remove``."""

    path: str
    recursive: bool = True
    force: bool = True


@dataclass(slots=True)
class CopyParams:
    """Params of ``fs/copy``."""

    source_path: str
    destination_path: str
    recursive: bool = False


@dataclass(slots=True)
class OpenParams:
    """Params of ``fs/open``."""

    handle_id: str
    path: str
    mode: Literal["read", "write"] = "read"


@dataclass(slots=True)
class OpenResult:
    """Result of ``fs/open``."""

    handle_id: str


@dataclass(slots=True)
class ReadBlockParams:
    """Params of ``fs/readBlock``."""

    handle_id: str
    offset: int
    len: int


@dataclass(slots=True)
class ReadBlockResult:
    """Result of ``fs/readBlock``: does the file end where the chunk ends?"""

    chunk: bytes
    eof: bool


@dataclass(slots=True)
class WriteBlockParams:
    """Params of ``fs/writeBlock``; ``chunk`` is base64."""

    handle_id: str
    offset: int
    chunk: str


@dataclass(slots=True)
class CloseParams:
    """Params of ``fs/close``."""

    handle_id: str
    commit: bool = False
