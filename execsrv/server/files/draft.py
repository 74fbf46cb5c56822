"""Drafts: files without a name (O_TMPFILE, open(2)) that are written bit by bit, to become a file when complete.

A draft vanishes with its descriptor: nothing is left behind, whatever happens to us, and nobody sees it before.
It lies on the file system of the file that it shall become, so that it only needs a name. Where that can't be, it
lies in the directory for temporary files and is copied: there are file systems that have no such files, and files
that no other may replace (see ``write_file.py``).
"""

from __future__ import annotations

import errno
import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from execsrv.server.files.copy_tree import COPY_CHUNK_BYTES
from execsrv.server.files.places import Place, reach
from execsrv.server.files.write_file import Content, link_target, may_replace, refuse_unwritable, write_all

_FLAGS = os.O_RDWR | os.O_TMPFILE

#: What a file system says that has no drafts.
_UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.EISDIR})


@contextmanager
def opened_draft(path: bytes) -> Iterator[int]:
    """A descriptor of an empty draft of the file at ``path``, open for the block.

    Raises InvalidRequest when a directory, a FIFO or a socket is there, else OSError when the file can't be written.
    """
    with _open_draft(path) as draft:
        yield draft.fileno()


def draft_content(draft: int) -> Content:
    """What a draft holds now."""
    return Content(partial(_copy, draft), draft=draft)


def _open_draft(path: bytes) -> io.FileIO:
    with reach(path) as named, reach(link_target(path)) as target:
        existing = named.stat_or_none()
        if existing:
            refuse_unwritable(named, existing)
            _refuse_protected(named)
        if existing is None or may_replace(target, existing):
            try:
                return _open_beside(target)
            except OSError as error:
                if existing is None and error.errno not in _UNSUPPORTED:
                    raise
    return tempfile.TemporaryFile(buffering=0)


def _refuse_protected(place: Place) -> None:
    if not os.access(place.path, os.W_OK, dir_fd=place.directory, effective_ids=True):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _open_beside(target: Place) -> io.FileIO:
    directory = target.sibling(b".")
    return io.FileIO(
        directory.path, "r+", opener=lambda path, _: os.open(path, _FLAGS, 0o666, dir_fd=directory.directory)
    )


def _copy(draft: int, destination: int) -> None:
    """Write all of a draft; its holes are left out where the destination has ended, however long they are."""
    size, kept = os.fstat(draft).st_size, os.fstat(destination).st_size
    offset = 0
    while offset < size:
        if offset >= kept:
            offset = _skip_hole(draft, destination, offset, size)
        chunk = os.pread(draft, COPY_CHUNK_BYTES, offset)
        write_all(chunk, destination)
        offset += len(chunk)


def _skip_hole(draft: int, destination: int, offset: int, size: int) -> int:
    """Where the next data of the draft are; the destination is moved there too."""
    try:
        data = os.lseek(draft, offset, os.SEEK_DATA)
    except OSError as error:
        data = size - 1 if error.errno == errno.ENXIO else offset  # nothing but a hole is left, or no holes are told
    if data > offset:
        os.lseek(destination, data, os.SEEK_SET)
    return data
