"""Copies files, links and trees.

Every file arrives whole or not at all (see ``write_file.py``) with the mode of its source, links are copied as
links. A tree is not all or nothing: a fault leaves what was copied before it.

The destination that a caller names may be a link: files are written through it, trees merged into where it leads.
Below it no link is followed: a file takes its place, and a directory can't.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial

from execsrv.errors import InvalidRequest
from execsrv.server.files.places import READ_FLAGS, Place, reach
from execsrv.server.files.tree_cursor import TreeCursor
from execsrv.server.files.write_file import (
    Content,
    kept_mode,
    refuse_unwritable,
    replacing,
    write_all,
    write_entry,
    write_through,
)

#: Bytes of a file that are held in memory while it is copied.
COPY_CHUNK_BYTES = 1024 * 1024


def copy(source: bytes, destination: bytes, recursive: bool, check: Callable[[], object]) -> None:
    """Copy the file, link or directory at ``source`` to ``destination``, merging directories, replacing files.

    ``check()`` is called for every entry and every chunk; what it raises ends the copy and is raised.

    Raises InvalidRequest for a directory when not ``recursive`` or when it would be copied into itself, and for
    what is neither file, directory nor link; else OSError.
    """
    copier = _Copier(check)
    with reach(source) as source_place, reach(destination) as destination_place:
        mode = source_place.stat(follow=False).st_mode
        if stat.S_ISDIR(mode):
            _refuse_directory(source, destination, recursive)
            copier.copy_tree(source_place, destination_place)
        elif stat.S_ISLNK(mode):
            _copy_link(source_place, destination_place)
        else:
            copier.copy_file(source_place, mode, partial(write_through, destination))


def _refuse_directory(source: bytes, destination: bytes, recursive: bool) -> None:
    if not recursive:
        message = "fs/copy requires recursive: true when sourcePath is a directory"
        raise InvalidRequest(message, kind="invalidInput")
    resolved = os.path.realpath(source)
    if os.path.commonpath([resolved, os.path.realpath(destination)]) == resolved:
        raise _copy_into_itself()


def _copy_into_itself() -> InvalidRequest:
    message = "fs/copy cannot copy a directory to itself or one of its descendants"
    return InvalidRequest(message, kind="invalidInput")


@dataclass(frozen=True, slots=True)
class _Level:
    """A directory being copied: the directories in it that are left, and was it made by us?"""

    directories: list[bytes]
    made: bool


class _Copier:
    """Copies files and trees as long as ``check`` lets it."""

    def __init__(self, check: Callable[[], object]) -> None:
        self._check = check

    def copy_tree(self, source: Place, destination: Place) -> None:
        """Copy a directory."""
        made = _make_directory(destination)
        with closing(TreeCursor(source)) as reader, closing(TreeCursor(destination, follow=not made)) as writer:
            root = os.fstat(writer.fd)
            levels = [_Level(self._copy_files(reader, writer), made)]
            while levels:
                if levels[-1].directories:
                    levels.append(self._copy_down(reader, writer, levels[-1].directories.pop(), root))
                    continue
                if levels.pop().made:  # only now, since the mode may forbid writing
                    os.fchmod(writer.fd, kept_mode(os.fstat(reader.fd), os.fstat(writer.fd)))
                if levels:
                    reader.leave()
                    writer.leave()

    def copy_file(self, source: Place, mode: int, write: Callable[[Content], None]) -> None:
        """Let ``write`` write a file, of which ``mode`` is known already."""
        _refuse_special(mode)  # before it is opened: a FIFO's writer or a device would notice
        with source.opened(READ_FLAGS | os.O_NOFOLLOW) as fd:
            found = os.fstat(fd)
            _refuse_special(found.st_mode)
            write(Content(partial(self._copy_bytes, fd), found))

    def _copy_down(self, reader: TreeCursor, writer: TreeCursor, name: bytes, root: os.stat_result) -> _Level:
        """Enter the directory ``name`` on both sides and copy the files in it."""
        reader.enter(name)
        if os.path.samestat(os.fstat(reader.fd), root):  # through a bind mount, which no path shows
            raise _copy_into_itself()
        made = _make_directory(Place(writer.fd, name))
        writer.enter(name)
        return _Level(self._copy_files(reader, writer), made)

    def _copy_files(self, reader: TreeCursor, writer: TreeCursor) -> list[bytes]:
        """Copy what is no directory, and return the names of the directories."""
        directories = []
        for name, is_directory in reader.entries():
            self._check()
            if is_directory:
                directories.append(name)
            else:
                self._copy_entry(Place(reader.fd, name), Place(writer.fd, name))
        return directories

    def _copy_entry(self, source: Place, destination: Place) -> None:
        mode = source.stat(follow=False).st_mode
        if stat.S_ISLNK(mode):
            _copy_link(source, destination)
        else:
            self.copy_file(source, mode, partial(write_entry, destination))

    def _copy_bytes(self, source: int, destination: int) -> None:
        os.lseek(source, 0, os.SEEK_SET)
        while chunk := os.read(source, COPY_CHUNK_BYTES):
            self._check()
            write_all(chunk, destination)


def _make_directory(place: Place) -> bool:
    """Make a directory that is ours alone until it is complete; False when something is there already."""
    with suppress(FileExistsError):
        os.mkdir(place.path, 0o700, dir_fd=place.directory)
        return True
    return False


def _refuse_special(mode: int) -> None:
    if not stat.S_ISREG(mode):
        message = "fs/copy only supports regular files, directories, and symlinks"
        raise InvalidRequest(message, kind="invalidInput")


def _copy_link(source: Place, destination: Place) -> None:
    existing = destination.stat_or_none(follow=False)
    if existing:
        _refuse_loss(source, destination, existing)
    with replacing(destination) as temporary:
        link = os.readlink(source.path, dir_fd=source.directory)
        os.symlink(link, temporary.path, dir_fd=temporary.directory)


def _refuse_loss(source: Place, destination: Place, existing: os.stat_result) -> None:
    """Raise InvalidRequest when a link must not take the place of ``existing``: directories, special files, and the
    very file that the link leads to, which would be gone."""
    refuse_unwritable(destination, existing)
    if not stat.S_ISLNK(existing.st_mode) and not stat.S_ISREG(existing.st_mode):
        raise InvalidRequest("fs/copy cannot replace a device with a link", kind="invalidInput")
    with suppress(OSError):  # a link that leads nowhere
        if os.path.samestat(source.stat(), existing):
            raise InvalidRequest("fs/copy cannot replace a file with a link to it", kind="invalidInput")
