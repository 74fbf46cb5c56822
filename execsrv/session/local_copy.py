"""Copies files, links and trees of this machine, as a server does with its own.

A copy has the permissions of its source, and links are copied as links. Where the copy shall be may be a link:
files are written through it, trees merged into where it leads. Below it none is followed: a file takes its place,
and a directory can't. A fault leaves what was copied before it.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO

from execsrv.session.local_content import (
    Fill,
    invalid,
    kept_mode,
    opened_regular,
    refuse_unwritable,
    replacing,
    stat_or_none,
    write_entry,
    write_through,
)


def copy(source: str, destination: str, recursive: bool) -> None:
    """Copy the file, link or, if ``recursive``, directory at ``source`` to ``destination``.

    Raises OSError, which is one of EINVAL for a directory that is not to be copied, or into itself, and for what is
    neither file, link nor directory.
    """
    mode = os.lstat(source).st_mode
    if stat.S_ISDIR(mode):
        if not recursive or _lies_in(destination, source):
            raise invalid()
        _copy_tree(source, destination)
    elif stat.S_ISLNK(mode):
        _copy_link(source, destination)
    else:
        _copy_file(source, destination, write_through)


def _lies_in(path: str, directory: str) -> bool:
    root = os.path.realpath(directory)
    return os.path.commonpath([root, os.path.realpath(path)]) == root


def _copy_tree(source: str, destination: str) -> None:
    made = []
    directories = [(source, destination)]
    for old, new in directories:  # which grows meanwhile
        if _make_directory(new, follow=new == destination):
            made.append((old, new))
        with os.scandir(old) as entries:
            for entry in entries:
                target = os.path.join(new, entry.name)
                if entry.is_dir(follow_symlinks=False):
                    directories.append((entry.path, target))
                else:
                    _copy_entry(entry, target)
    for old, new in made:  # only now, since the mode may forbid writing
        os.chmod(new, kept_mode(os.stat(old), os.stat(new)))


def _make_directory(path: str, follow: bool) -> bool:
    """Make a directory that is ours alone until it is complete; False when one is there already."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not stat.S_ISDIR(os.stat(path, follow_symlinks=follow).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
        return False
    return True


def _copy_entry(entry: os.DirEntry[str], destination: str) -> None:
    if entry.is_symlink():
        _copy_link(entry.path, destination)
    else:
        _copy_file(entry.path, destination, write_entry)


def _copy_file(source: str, destination: str, write: Callable[[str, Fill, os.stat_result], None]) -> None:
    with opened_regular(source) as file:
        write(destination, lambda copy: _copy_content(file, copy), os.fstat(file.fileno()))


def _copy_content(source: BinaryIO, destination: BinaryIO) -> None:
    source.seek(0)
    shutil.copyfileobj(source, destination)


def _copy_link(source: str, destination: str) -> None:
    with suppress(FileNotFoundError):
        _refuse_loss(source, os.lstat(destination))
    with replacing(destination) as temporary:
        os.symlink(os.readlink(source), temporary)


def _refuse_loss(source: str, existing: os.stat_result) -> None:
    """Refuse to put a link in the place of what is no file, and of the file that it leads to."""
    refuse_unwritable(existing)
    if not stat.S_ISLNK(existing.st_mode) and not stat.S_ISREG(existing.st_mode):
        raise invalid()
    leads_to = stat_or_none(source)
    if leads_to and os.path.samestat(leads_to, existing):
        raise invalid()
