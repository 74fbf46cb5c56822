"""The files of this machine, as a session sees them."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from execsrv.session.environment import (
    CopyOptions,
    CreateDirectoryOptions,
    FileMetadata,
    ReadDirectoryEntry,
    RemoveOptions,
)
from execsrv.session.local_content import invalid, opened_regular, write_through
from execsrv.session.local_copy import copy
from execsrv.session.paths import check_paths


class LocalFileSystem:
    """Files of this machine; see ExecutorFileSystem.

    It does what a server does with its own, within the limits of Python: a path is one that the system takes in one
    piece, a tree to be removed is not deeper than calls may be nested, and a time of creation is seldom known.
    """

    def read_file(self, path: str) -> bytes:
        """See ExecutorFileSystem."""
        with _errors_naming(path), opened_regular(path) as file:
            return file.read()

    def write_file(self, path: str, contents: bytes) -> None:
        """See ExecutorFileSystem."""
        with _errors_naming(path):
            write_through(path, lambda file: file.write(contents))

    def create_directory(self, path: str, options: CreateDirectoryOptions = CreateDirectoryOptions()) -> None:
        """See ExecutorFileSystem."""
        with _errors_naming(path):
            if options.recursive:
                _make_directories(path)
            else:
                os.mkdir(path)

    def get_metadata(self, path: str) -> FileMetadata:
        """See ExecutorFileSystem."""
        with _errors_naming(path):
            found = os.stat(path)
        return FileMetadata(
            is_directory=stat.S_ISDIR(found.st_mode),
            is_file=stat.S_ISREG(found.st_mode),
            created_at_ms=max(0, int(getattr(found, "st_birthtime", 0) * 1000)),
            modified_at_ms=max(0, found.st_mtime_ns // 1_000_000),
        )

    def read_directory(self, path: str) -> list[ReadDirectoryEntry]:
        """See ExecutorFileSystem."""
        with _errors_naming(path), os.scandir(path) as entries:
            return [_entry(entry) for entry in entries]

    def remove(self, path: str, options: RemoveOptions = RemoveOptions()) -> None:
        """See ExecutorFileSystem."""
        try:
            with _errors_naming(path):
                _remove(path, options.recursive)
        except FileNotFoundError:
            if not options.force:
                raise

    def copy(self, source_path: str, destination_path: str, options: CopyOptions = CopyOptions()) -> None:
        """See ExecutorFileSystem."""
        with _errors_naming(source_path, destination_path):
            copy(source_path, destination_path, options.recursive)


@contextmanager
def _errors_naming(*paths: str) -> Iterator[None]:
    """Check the paths, and let an OSError of the block name them: not what lies beside or below."""
    check_paths(*paths)
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, paths[0], None, *paths[1:]) from error


def _make_directories(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
    except FileExistsError:  # a file, or a link to nothing, in the way
        os.stat(path)
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None


def _entry(entry: os.DirEntry[str]) -> ReadDirectoryEntry:
    return ReadDirectoryEntry(
        file_name=entry.name,
        is_directory=entry.is_dir(follow_symlinks=False),
        is_file=entry.is_file(follow_symlinks=False),
        is_symlink=entry.is_symlink(),
    )


def _remove(path: str, recursive: bool) -> None:
    name = path.rstrip("/") or "/"  # without the slash a link stands for itself
    found = os.lstat(name)
    if os.path.samestat(found, os.stat("/")) or os.path.basename(name) in (".", ".."):
        raise invalid()
    if not stat.S_ISDIR(found.st_mode):
        os.unlink(name if stat.S_ISLNK(found.st_mode) else path)
    elif recursive:
        shutil.rmtree(name)
    else:
        os.rmdir(name)
