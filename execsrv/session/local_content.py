"""Reads files of this machine and gives them new content, as a server does with its own.

New content comes whole or not at all: a temporary file in the same directory takes the old one's place. Mode and
owner stay. Where the system does not allow that, and for devices, the file is written in place.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, TypeAlias

#: Writes all that a file shall hold; may be asked to twice.
Fill: TypeAlias = Callable[[BinaryIO], object]

#: What the system says when no new file may take the old one's place; ENOENT in /proc, EINVAL when the old owner is
#: unknown to our user namespace.
_REFUSALS = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV, errno.ENOENT, errno.EINVAL}
)

_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL


class _Refused(OSError):
    """The system lets no new file take this one's place."""


def invalid() -> OSError:
    """The error for what a file can't be asked for."""
    return OSError(errno.EINVAL, os.strerror(errno.EINVAL))


def stat_or_none(path: str) -> os.stat_result | None:
    """What ``path`` leads to; None when nothing is there. Raises OSError."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


@contextmanager
def opened_regular(path: str) -> Iterator[BinaryIO]:
    """A regular file, open to read for the block; links are followed. Never waits for a FIFO's writer.

    Raises OSError, which is one of EINVAL for what is neither file nor directory.
    """
    _refuse_irregular(os.stat(path))  # before it is opened: a FIFO's writer or a device would notice
    with open(path, "rb", opener=_open_without_waiting) as file:
        _refuse_irregular(os.fstat(file.fileno()))
        yield file


def write_through(path: str, fill: Fill, source: os.stat_result | None = None) -> None:
    """Let ``fill`` write the file at ``path``; a link is followed, also to a file that is not there yet.

    source: the file that it is a copy of, whose permissions it gets; else it keeps its own. Raises OSError.
    """
    _store(path, os.path.realpath(path) if os.path.islink(path) else path, stat_or_none(path), fill, source)


def write_entry(path: str, fill: Fill, source: os.stat_result) -> None:
    """As ``write_through``, but a link at ``path`` is replaced."""
    _store(path, path, None if os.path.islink(path) else stat_or_none(path), fill, source)


@contextmanager
def replacing(target: str) -> Iterator[str]:
    """A free path beside ``target``: what the block makes there takes the target's place, or goes after a fault."""
    temporary = os.path.join(os.path.dirname(target), f".execsrv-{secrets.token_hex(8)}")
    try:
        yield temporary
        with _refusals_marked():
            os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):  # the first fault is the one to tell
            os.unlink(temporary)
        raise


def refuse_unwritable(existing: os.stat_result) -> None:
    """Raise OSError for what holds no content: directories, FIFOs and sockets."""
    if stat.S_ISDIR(existing.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if stat.S_ISFIFO(existing.st_mode) or stat.S_ISSOCK(existing.st_mode):
        raise invalid()


def kept_mode(source: os.stat_result, copy: os.stat_result) -> int:
    """The permissions of ``source`` for its copy; set-ID bits only where they mean the same user and group."""
    mode = stat.S_IMODE(source.st_mode)
    if source.st_uid != copy.st_uid:
        mode &= ~stat.S_ISUID
    if source.st_gid != copy.st_gid:
        mode &= ~stat.S_ISGID
    return mode


def _refuse_irregular(found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found.st_mode):
        raise invalid()


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _store(path: str, target: str, existing: os.stat_result | None, fill: Fill, source: os.stat_result | None) -> None:
    """Write the file ``existing`` that ``path`` leads to and whose own name is ``target``."""
    if existing is None:
        return _replace(target, None, fill, source)
    refuse_unwritable(existing)
    if source and os.path.samestat(existing, source):
        return  # a file copied onto itself
    if _may_replace(target, existing):
        with suppress(_Refused):
            return _replace(target, existing, fill, source)
    _write_in_place(path, fill)


def _may_replace(target: str, existing: os.stat_result) -> bool:
    """Is ``target`` a regular file, the one meant, that we may write to? rename(2) would not spare others."""
    try:
        found = os.lstat(target)
    except FileNotFoundError:  # a link of /proc, which only seems to have a target
        return False
    is_meant = stat.S_ISREG(found.st_mode) and os.path.samestat(found, existing)
    return is_meant and os.access(target, os.W_OK, effective_ids=True)


def _replace(target: str, existing: os.stat_result | None, fill: Fill, source: os.stat_result | None) -> None:
    model = source or existing
    with replacing(target) as temporary, _created(temporary, 0o600 if model else 0o666) as file:
        created = os.fstat(file.fileno())
        if existing and (existing.st_uid, existing.st_gid) != (created.st_uid, created.st_gid):
            with _refusals_marked():
                os.chown(file.fileno(), existing.st_uid, existing.st_gid)
        fill(file)
        file.flush()
        if model:  # last, since a change of owner and writing clear the set-ID bits
            os.chmod(file.fileno(), kept_mode(model, os.fstat(file.fileno())))


@contextmanager
def _created(path: str, mode: int) -> Iterator[BinaryIO]:
    with _refusals_marked():
        descriptor = os.open(path, _CREATE_FLAGS, mode)
    with open(descriptor, "wb") as file:
        yield file


@contextmanager
def _refusals_marked() -> Iterator[None]:
    """Tell a refusal to replace from a fault of the content, after which nothing may be written in place."""
    try:
        yield
    except OSError as error:
        if error.errno in _REFUSALS:
            raise _Refused(error.errno, error.strerror) from error
        raise


def _write_in_place(path: str, fill: Fill) -> None:
    """Write over the file from its start and cut it afterwards: content that is not longer needs no space."""
    with open(path, "wb", opener=_open_in_place) as file:
        size = os.fstat(file.fileno()).st_size
        fill(file)
        if size:  # devices and files of /proc have none, and can't be cut
            file.truncate()


def _open_in_place(path: str, _: int) -> int:
    return os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
