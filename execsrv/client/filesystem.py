"""Files on the server's machine, after the manner of ``os`` and ``pathlib``."""

from __future__ import annotations

import dataclasses
import shutil
from typing import IO, Any, BinaryIO, Literal, TextIO, overload

from execsrv.client.errors import ServerError
from execsrv.client.file_errors import os_errors
from execsrv.client.paths import AnyPath, parent, wire_path
from execsrv.client.remote_file import BLOCK_BYTES, Caller, Mode, open_remote
from execsrv.config import MIB
from execsrv.protocol.files import DirectoryEntry, Metadata
from execsrv.wire import decode_base64, encode_base64, from_wire

#: The longest content that is sent in one message: a longer one would hold up everything else on the connection.
ONE_MESSAGE_BYTES = 8 * MIB


class FileSystem:
    """File operations over one connection.

    Paths are absolute, and those of the server's machine. They may be bytes, or str as ``os.fsdecode`` makes them,
    so every name can be reached. A method raises FileNotFoundError, PermissionError, FileExistsError,
    NotADirectoryError, IsADirectoryError or another OSError, with the ServerError as its cause; ServerError itself
    for what is no matter of the operating system; and ClosedError.

    has_blocks: the server also reads and writes files block by block.
    """

    def __init__(self, client: Caller, has_blocks: bool = False) -> None:
        self._client = client
        self._has_blocks = has_blocks

    @overload
    def open(self, path: AnyPath, mode: Literal["r", "w"] = "r", encoding: str = "utf-8") -> TextIO: ...

    @overload
    def open(self, path: AnyPath, mode: Literal["rb", "wb"]) -> BinaryIO: ...

    def open(self, path: AnyPath, mode: Mode = "r", encoding: str = "utf-8") -> IO[Any]:
        """A file object, which needs memory for one block only. It is read and written as that of ``open`` is.

        What is written takes its place when the file is closed, as with ``write_bytes``; nothing is changed when an
        error leaves its ``with`` block, or when it is dropped without being closed. One is read from any place, and
        written from the start to the end; line ends are written as they are. Raises ValueError for another mode.
        """
        return open_remote(self._client, path, mode, encoding)

    def upload(self, local: AnyPath, remote: AnyPath) -> None:
        """Make the content of a file of this machine that of one of the server's: whole or not at all."""
        with open(local, "rb") as source, self.open(remote, "wb") as target:
            shutil.copyfileobj(source, target, BLOCK_BYTES)

    def download(self, remote: AnyPath, local: AnyPath) -> None:
        """Make the content of a file of the server's that of one of this machine; an error may leave a part."""
        with self.open(remote, "rb") as source, open(local, "wb") as target:
            shutil.copyfileobj(source, target, BLOCK_BYTES)

    def read_bytes(self, path: AnyPath) -> bytes:
        """The content of a regular file: in one message, or in blocks when the server finds that too long."""
        try:
            return decode_base64(self._call("fs/readFile", path)["dataBase64"])
        except ServerError as error:
            if error.kind != "tooLarge" or not self._has_blocks:
                raise
        with self.open(path, "rb") as file:
            return file.read()

    def write_bytes(self, path: AnyPath, data: bytes) -> None:
        """Make ``data`` the content of a file, which is created if need be: whole or not at all."""
        if len(data) <= ONE_MESSAGE_BYTES or not self._has_blocks:
            self._call("fs/writeFile", path, dataBase64=encode_base64(data))
        else:
            with self.open(path, "wb") as file:
                file.write(data)

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
            self._create_directory(parent(path), recursive=True)
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
        with os_errors(source, destination):
            self._client.call("fs/copy", params)

    def _call(self, method: str, path: AnyPath, **params: Any) -> dict[str, Any]:
        with os_errors(path):
            return self._client.call(method, {"path": wire_path(path), **params})

    def _create_directory(self, path: AnyPath, recursive: bool) -> None:
        self._call("fs/createDirectory", path, recursive=recursive)

    def _stat_if_any(self, path: AnyPath) -> Metadata | None:
        try:
            return self.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None


def _with_python_name(entry: DirectoryEntry) -> DirectoryEntry:
    if entry.file_name_base64 is None:
        return entry
    name = entry.file_name_base64.decode("utf-8", "surrogateescape")
    return dataclasses.replace(entry, file_name=name, file_name_base64=None)
