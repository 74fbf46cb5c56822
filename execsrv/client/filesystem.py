"""Files on the server's machine, after the manner of ``os`` and ``pathlib``."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import urllib.parse
from collections.abc import Iterator
from typing import Any, Protocol, TypeAlias

from execsrv.client.errors import ServerError
from execsrv.protocol import DirectoryEntry, Metadata
from execsrv.wire import decode_base64, encode_base64, from_wire

AnyPath: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]

#: The errors of the operating system behind kinds of server errors. OSError picks its subclass by them.
_ERRNO = {
    "notFound": errno.ENOENT,
    "permissionDenied": errno.EACCES,
    "alreadyExists": errno.EEXIST,
    "notADirectory": errno.ENOTDIR,
    "isADirectory": errno.EISDIR,
    "directoryNotEmpty": errno.ENOTEMPTY,
}


class Caller(Protocol):
    """Whoever can call the server's methods."""

    def call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """See ExecServerClient.call."""


class FileSystem:
    """File operations over one connection.

    Paths are absolute, and those of the server's machine. They may be bytes, or str as ``os.fsdecode`` makes them,
    so every name can be reached. A method raises FileNotFoundError, PermissionError, FileExistsError,
    NotADirectoryError, IsADirectoryError or another OSError, with the ServerError as its cause; ServerError itself
    for what is no matter of the operating system; and ClosedError.
    """

    def __init__(self, client: Caller) -> None:
        self._client = client

    def read_bytes(self, path: AnyPath) -> bytes:
        """The content of a regular file."""
        return decode_base64(self._call("fs/readFile", path)["dataBase64"])

    def write_bytes(self, path: AnyPath, data: bytes) -> None:
        """Make ``data`` the content of a file, which is created if need be: whole or not at all."""
        self._call("fs/writeFile", path, dataBase64=encode_base64(data))

    def read_text(self, path: AnyPath, encoding: str = "utf-8") -> str:
        """The content of a regular file, decoded; line ends stay as they are."""
        return self.read_bytes(path).decode(encoding)

    def write_text(self, path: AnyPath, text: str, encoding: str = "utf-8") -> None:
        """Make ``text`` the content of a file; line ends stay as they are."""
        self.write_bytes(path, text.encode(encoding))

    def listdir(self, path: AnyPath) -> list[str]:
        """The names in a directory. ``os.fsencode`` gives the bytes of one that is not UTF-8."""
        return [entry.file_name for entry in self.scandir(path)]

    def scandir(self, path: AnyPath) -> list[DirectoryEntry]:
        """The entries of a directory with their types; links are not followed. Names are as in ``listdir``."""
        entries = self._call("fs/readDirectory", path)["entries"]
        return [_with_python_name(from_wire(DirectoryEntry, entry)) for entry in entries]

    def stat(self, path: AnyPath) -> Metadata:
        """What ``path`` is, or leads to; ``is_symlink`` is about itself."""
        return from_wire(Metadata, self._call("fs/getMetadata", path))

    def exists(self, path: AnyPath) -> bool:
        """Is there something, also at the end of a link?"""
        return self._stat_if_any(path) is not None

    def is_dir(self, path: AnyPath) -> bool:
        """Is it a directory, or a link to one?"""
        metadata = self._stat_if_any(path)
        return metadata is not None and metadata.is_directory

    def is_file(self, path: AnyPath) -> bool:
        """Is it a regular file, or a link to one?"""
        metadata = self._stat_if_any(path)
        return metadata is not None and metadata.is_file

    def mkdir(self, path: AnyPath, parents: bool = False, exist_ok: bool = False) -> None:
        """Create a directory; ``parents``: those above it too; ``exist_ok``: it may be there already."""
        if parents and exist_ok:
            return self._create_directory(path, recursive=True)
        if parents:
            self._create_directory(_parent(path), recursive=True)
        try:
            self._create_directory(path, recursive=False)
        except FileExistsError:
            if not (exist_ok and self.is_dir(path)):
                raise

    def remove(self, path: AnyPath, recursive: bool = False, missing_ok: bool = False) -> None:
        """Remove a file, a link or an empty directory; ``recursive``: also one with content."""
        self._call("fs/remove", path, recursive=recursive, force=missing_ok)

    def copy(self, source: AnyPath, destination: AnyPath, recursive: bool = False) -> None:
        """Copy a file or link; ``recursive``: also a directory, which is merged into one that is there."""
        params = {"sourcePath": wire_path(source), "destinationPath": wire_path(destination), "recursive": recursive}
        with _os_errors(source, destination):
            self._client.call("fs/copy", params)

    def _call(self, method: str, path: AnyPath, **params: Any) -> dict[str, Any]:
        with _os_errors(path):
            return self._client.call(method, {"path": wire_path(path), **params})

    def _create_directory(self, path: AnyPath, recursive: bool) -> None:
        self._call("fs/createDirectory", path, recursive=recursive)

    def _stat_if_any(self, path: AnyPath) -> Metadata | None:
        try:
            return self.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None


def wire_path(path: AnyPath) -> str:
    """A path as the protocol wants it: itself, or a ``file://`` URI when it is not UTF-8."""
    raw = _bytes_of(path)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "file://" + urllib.parse.quote(raw)


def _bytes_of(path: AnyPath) -> bytes:
    """The path's bytes, on whatever system this client runs."""
    path = os.fspath(path)
    return path if isinstance(path, bytes) else path.encode("utf-8", "surrogateescape")


def _parent(path: AnyPath) -> bytes:
    return _bytes_of(path).rstrip(b"/").rpartition(b"/")[0] or b"/"


def _with_python_name(entry: DirectoryEntry) -> DirectoryEntry:
    if entry.file_name_base64 is None:
        return entry
    name = entry.file_name_base64.decode("utf-8", "surrogateescape")
    return dataclasses.replace(entry, file_name=name, file_name_base64=None)


@contextlib.contextmanager
def _os_errors(path: AnyPath, path2: AnyPath | None = None) -> Iterator[None]:
    """Raise the OSError that belongs to a ServerError, with the paths."""
    try:
        yield
    except ServerError as error:
        code = _errno_of(error)
        if code is None:
            raise
        filenames = (path,) if path2 is None else (path, None, path2)
        raise OSError(code, error.message, *filenames) from error


def _errno_of(error: ServerError) -> int | None:
    """The number on this system, which for what has no kind of its own is taken to be the server's."""
    code = error.data.get("errno") if isinstance(error.data, dict) else None
    return _ERRNO.get(error.kind) or (code if isinstance(code, int) else None)
