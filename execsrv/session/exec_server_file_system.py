"""The files of a server's machine, as a session sees them."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from execsrv.client.client import ExecServerClient
from execsrv.client.errors import ClosedError, ExecServerError, ServerError
from execsrv.session.environment import (
    CopyOptions,
    CreateDirectoryOptions,
    FileMetadata,
    ReadDirectoryEntry,
    RemoveOptions,
)
from execsrv.session.path_mapper import PathMapper
from execsrv.session.paths import check_paths

#: What a server refuses without a word of its system, as error numbers.
_ERRNO = {"invalidInput": errno.EINVAL, "tooLarge": errno.EFBIG, "unknownMethod": errno.ENOSYS}


class ExecServerFileSystem:
    """Files over a connection; see ExecutorFileSystem. The end of the connection is a ConnectionResetError.

    path_mapper: says where the server has what; without one the session's paths are the server's own.
    """

    def __init__(self, client: ExecServerClient, path_mapper: PathMapper | None = None) -> None:
        self._fs = client.fs
        self._to_remote = path_mapper.to_remote if path_mapper else str

    def read_file(self, path: str) -> bytes:
        """See ExecutorFileSystem."""
        with self._mapped(path) as (remote,):
            return self._fs.read_bytes(remote)

    def write_file(self, path: str, contents: bytes) -> None:
        """See ExecutorFileSystem."""
        with self._mapped(path) as (remote,):
            self._fs.write_bytes(remote, contents)

    def create_directory(self, path: str, options: CreateDirectoryOptions = CreateDirectoryOptions()) -> None:
        """See ExecutorFileSystem."""
        with self._mapped(path) as (remote,):
            self._fs.mkdir(remote, parents=options.recursive, exist_ok=options.recursive)

    def get_metadata(self, path: str) -> FileMetadata:
        """See ExecutorFileSystem."""
        with self._mapped(path) as (remote,):
            found = self._fs.stat(remote)
        return FileMetadata(found.is_directory, found.is_file, found.created_at_ms, found.modified_at_ms)

    def read_directory(self, path: str) -> list[ReadDirectoryEntry]:
        """See ExecutorFileSystem."""
        with self._mapped(path) as (remote,):
            entries = self._fs.scandir(remote)
        return [ReadDirectoryEntry(e.file_name, e.is_directory, e.is_file, e.is_symlink) for e in entries]

    def remove(self, path: str, options: RemoveOptions = RemoveOptions()) -> None:
        """See ExecutorFileSystem."""
        with self._mapped(path) as (remote,):
            self._fs.remove(remote, recursive=options.recursive, missing_ok=options.force)

    def copy(self, source_path: str, destination_path: str, options: CopyOptions = CopyOptions()) -> None:
        """See ExecutorFileSystem."""
        with self._mapped(source_path, destination_path) as (source, destination):
            self._fs.copy(source, destination, recursive=options.recursive)

    @contextmanager
    def _mapped(self, *paths: str) -> Iterator[list[str]]:
        """Where the server has ``paths``; an OSError that leaves the block names the session's."""
        check_paths(*paths)
        try:
            yield [self._to_remote(path) for path in paths]
        except (OSError, ExecServerError) as error:  # the server's own words are those of the cause
            number = _errno_of(error)
            raise OSError(number, os.strerror(number), paths[0], None, *paths[1:]) from error


def _errno_of(error: OSError | ExecServerError) -> int:
    if isinstance(error, ClosedError):
        return errno.ECONNRESET
    if isinstance(error, ServerError):
        return _ERRNO.get(error.kind, errno.EIO)
    return getattr(error, "errno", None) or errno.EIO
