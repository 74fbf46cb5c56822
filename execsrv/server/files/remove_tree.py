"""Removes files and trees: a link is removed and never followed, whoever swaps what meanwhile."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import closing, suppress

from execsrv.errors import InvalidRequest
from execsrv.server.files.places import Place, reach
from execsrv.server.files.tree_cursor import TreeCursor


def remove(path: bytes, recursive: bool) -> None:
    """Remove the file, link or directory at ``path``; ``recursive`` takes what is in a directory with it.

    Stops at the first fault. Raises InvalidRequest for the root directory, else OSError.
    """
    name = path.rstrip(b"/") or b"/"  # without the slash a link stands for itself
    with reach(name) as place:
        found = place.stat(follow=False)
        _refuse_unremovable(name, found)
        if stat.S_ISDIR(found.st_mode):
            if recursive:
                _empty(place)
            os.rmdir(place.path, dir_fd=place.directory)
        elif name != path and not stat.S_ISLNK(found.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        else:
            os.unlink(place.path, dir_fd=place.directory)


def _refuse_unremovable(path: bytes, found: os.stat_result) -> None:
    if os.path.samestat(found, os.stat(b"/")):  # by identity, since it has many names
        raise InvalidRequest("fs/remove cannot remove the root directory", kind="invalidInput")
    if os.path.basename(path) in (b".", b".."):
        raise InvalidRequest("fs/remove cannot remove a path that ends in . or ..", kind="invalidInput")


def _empty(place: Place) -> None:
    """Remove everything in the directory at ``place``. What others remove meanwhile is no fault."""
    with closing(TreeCursor(place)) as cursor:
        levels = [_remove_files(cursor)]  # the directories that are left, of each level from the top down
        while levels:
            if levels[-1]:
                with suppress(FileNotFoundError):
                    cursor.enter(levels[-1].pop())
                    levels.append(_remove_files(cursor))
                continue
            levels.pop()
            if levels:
                name = cursor.leave()
                with suppress(FileNotFoundError):
                    os.rmdir(name, dir_fd=cursor.fd)


def _remove_files(cursor: TreeCursor) -> list[bytes]:
    """Remove what is no directory, and return the names of the directories."""
    directories = []
    for name, is_directory in cursor.entries():
        if is_directory:
            directories.append(name)
        else:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=cursor.fd)
    return directories
