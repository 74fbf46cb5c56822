"""Gives files new content: whole or not at all, wherever the system lets a new file take an old one's place.

The content goes into a temporary file in the same directory, which is then renamed over the old one (rename(2)):
readers see the old content or the new, and after a fault the old is still there.

- Mode and owner of the old file stay. Extended attributes and ACLs do not, and other hard links to the old file
  keep the old content.
- Nothing is synced to the disk. The promise is about readers and failed writes; surviving a power cut would make
  every small write wait for the disk.
- Devices, files that are mount points, and files whose directory or owner we may not change are written in place.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import NamedTuple

from execsrv.errors import InvalidRequest
from execsrv.server.files.places import Place, reach
from execsrv.server.paths import shown

#: Links followed to the file that is written; the system's own limit (path_resolution(7)).
MAX_LINKS = 40

#: What the system says when no new file may take the old one's place; ENOENT in /proc, EINVAL when the old owner is
#: unknown to our user namespace.
_REFUSALS = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV, errno.ENOENT, errno.EINVAL}
)

_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_IN_PLACE_FLAGS = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY


class Content(NamedTuple):
    """What a file shall hold: ``write`` puts it all into a descriptor, and may be asked to twice.

    ``source`` is the file that it is copied from, if any: the new file takes its mode. ``draft`` is an open file
    without a name that holds it all already: it becomes the new file itself where that can be.
    """

    write: Callable[[int], None]
    source: os.stat_result | None = None
    draft: int | None = None


class _Unreplaceable(OSError):
    """The system lets no new file take this one's place."""


def bytes_content(data: bytes) -> Content:
    """Content that is at hand."""
    return Content(partial(write_all, data))


def write_all(data: bytes, fd: int) -> None:
    """Write all of ``data``. Raises OSError, also BlockingIOError when a device is not ready to take it."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def write_through(path: bytes, content: Content) -> None:
    """Make ``content`` the file at ``path``; a link is followed, to a file that is not there yet too.

    Raises InvalidRequest when a directory, a FIFO or a socket is there, else OSError.
    """
    with reach(path) as named, reach(link_target(path)) as target:
        _store(named, target, named.stat_or_none(), content)


def write_entry(place: Place, content: Content) -> None:
    """As ``write_through``, but a link at ``place`` is replaced, never followed."""
    existing = place.stat_or_none(follow=False)
    if existing and stat.S_ISLNK(existing.st_mode):
        existing = None
    _store(place, place, existing, content)


@contextmanager
def replacing(target: Place) -> Iterator[Place]:
    """A free place beside ``target``: what the block makes there takes the target's place, or goes after a fault.

    Raises OSError.
    """
    temporary = target.sibling(b".execsrv-" + secrets.token_hex(8).encode())
    try:
        yield temporary
        with _refusals_marked():
            os.rename(temporary.path, target.path, src_dir_fd=target.directory, dst_dir_fd=target.directory)
    except BaseException:
        with suppress(OSError):  # the first fault is the one to tell
            os.unlink(temporary.path, dir_fd=target.directory)
        raise


def kept_mode(source: os.stat_result, copy: os.stat_result) -> int:
    """The permission bits of ``source`` for its copy.

    Set-user-ID and set-group-ID stay only with the same owner and group: else a copy would lend somebody's program
    the rights of somebody else.
    """
    mode = stat.S_IMODE(source.st_mode)
    if source.st_uid != copy.st_uid:
        mode &= ~stat.S_ISUID
    if source.st_gid != copy.st_gid:
        mode &= ~stat.S_ISGID
    return mode


def refuse_unwritable(place: Place, existing: os.stat_result) -> None:
    """Raise InvalidRequest when ``existing``, at ``place``, is of a kind that takes no content."""
    if stat.S_ISDIR(existing.st_mode):
        raise InvalidRequest(f"{shown(place.path)} is a directory", kind="isADirectory")
    if stat.S_ISFIFO(existing.st_mode) or stat.S_ISSOCK(existing.st_mode):
        raise InvalidRequest(f"{shown(place.path)} is a FIFO or a socket", kind="invalidInput")


def may_replace(target: Place, existing: os.stat_result) -> bool:
    """Would a new file at ``target`` be what a write to ``existing`` means, and may we write to it?

    No for devices, for links of /proc that only seem to have a target, and for write-protected files, which
    rename(2) would not spare.
    """
    found = target.stat_or_none(follow=False)
    return (
        found is not None
        and stat.S_ISREG(found.st_mode)
        and os.path.samestat(found, existing)
        and os.access(target.path, os.W_OK, dir_fd=target.directory, effective_ids=True)
    )


def link_target(path: bytes) -> bytes:
    """Where the links that start at ``path`` end, be it there or not. Raises OSError."""
    for _ in range(MAX_LINKS):
        with reach(path) as place:
            try:
                link = os.readlink(place.path, dir_fd=place.directory)
            except OSError:  # no link, or nothing: what comes next finds out
                return path
        path = os.path.join(os.path.dirname(path), link)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _store(named: Place, target: Place, existing: os.stat_result | None, content: Content) -> None:
    """Write the file ``existing`` that ``named`` leads to and whose own name is ``target``."""
    if existing is None:
        _replace(target, None, content)
        return
    refuse_unwritable(named, existing)
    if content.source and os.path.samestat(existing, content.source):
        return  # a file copied onto itself
    if may_replace(target, existing):
        with suppress(_Unreplaceable):
            _replace(target, existing, content)
            return
    _write_in_place(named, existing, content)


def _replace(target: Place, existing: os.stat_result | None, content: Content) -> None:
    model = content.source or existing
    with replacing(target) as temporary, _made(temporary, content.draft, private=model is not None) as fd:
        if existing:
            _give_to_owner(fd, existing)
        if fd != content.draft:
            content.write(fd)
        if model:  # last, since a change of owner and writing clear the set-ID bits
            os.fchmod(fd, kept_mode(model, os.fstat(fd)))


@contextmanager
def _made(place: Place, draft: int | None, private: bool) -> Iterator[int]:
    """A new file at ``place``, open for the block: the draft if that can be, else an empty one."""
    if draft is not None and _named(draft, place, private):
        yield draft
    else:
        with _created(place, private) as fd:
            yield fd


def _named(draft: int, place: Place, private: bool) -> bool:
    """Give a draft its name (open(2), O_TMPFILE); False when it is of another file system, or can't have one."""
    try:
        if private:
            os.fchmod(draft, 0o600)
        # any descriptor as src_dir_fd makes Python follow the link, which is absolute
        os.link(b"/proc/self/fd/%d" % draft, place.path, src_dir_fd=draft, dst_dir_fd=place.directory)
    except OSError:
        return False
    return True


@contextmanager
def _created(place: Place, private: bool) -> Iterator[int]:
    with _refusals_marked():
        fd = os.open(place.path, _CREATE_FLAGS, 0o600 if private else 0o666, dir_fd=place.directory)
    try:
        yield fd
    finally:
        os.close(fd)


def _give_to_owner(fd: int, existing: os.stat_result) -> None:
    created = os.fstat(fd)
    if (created.st_uid, created.st_gid) != (existing.st_uid, existing.st_gid):
        with _refusals_marked():
            os.fchown(fd, existing.st_uid, existing.st_gid)


@contextmanager
def _refusals_marked() -> Iterator[None]:
    """Tell a refusal to replace from a fault of the content, after which nothing may be written in place."""
    try:
        yield
    except OSError as error:
        if error.errno in _REFUSALS:
            raise _Unreplaceable(error.errno, error.strerror) from error
        raise


def _write_in_place(place: Place, existing: os.stat_result, content: Content) -> None:
    """Write over the file from its start and cut it afterwards: content that is not longer needs no space."""
    with place.opened(_IN_PLACE_FLAGS) as fd:
        found = os.fstat(fd)
        if not os.path.samestat(found, existing):
            raise OSError(errno.ESTALE, "the file was replaced meanwhile")
        content.write(fd)
        if found.st_size:  # devices and files of /proc have none, and can't be cut
            os.ftruncate(fd, os.lseek(fd, 0, os.SEEK_CUR))
