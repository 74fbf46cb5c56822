"""Opens regular files, and reads one as a whole, within limits that hold whatever size it claims to have."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from execsrv.errors import InvalidRequest
from execsrv.server.files.places import READ_FLAGS, Place, reach
from execsrv.server.paths import shown

#: Longest file that is read on the hub, when it is in memory: more would hold up the others.
AT_ONCE_BYTES = 64 * 1024

#: Bytes asked for beyond the size that a file tells: files of /proc tell 0, and others may grow.
READ_AHEAD_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """How many bytes one answer may carry."""

    file_bytes: int
    message_bytes: int

    @property
    def at_once_bytes(self) -> int:
        """How many may be read without a thread."""
        return min(AT_ONCE_BYTES, self.file_bytes, self.message_bytes // 4 * 3)

    def check(self, size: int) -> None:
        """Raise InvalidRequest (``tooLarge``) when ``size`` bytes are too many for a file or for an answer."""
        if size > self.file_bytes:
            raise InvalidRequest(f"file is too large to read: limit is {self.file_bytes} bytes", kind="tooLarge")
        if size > self.message_bytes // 4 * 3:
            raise InvalidRequest(
                f"file is too large for one answer: limit is {self.message_bytes} bytes of base64", kind="tooLarge"
            )


def read_file(path: bytes, limits: ReadLimits) -> bytes:
    """The content of the regular file at ``path``; links are followed.

    Raises InvalidRequest for any other kind of file and for one above the limits, else OSError.
    """
    with opened_regular(path) as fd:
        size = os.fstat(fd).st_size
        limits.check(size)
        return _read_to_end(fd, size, limits)


@contextmanager
def opened_regular(path: bytes) -> Iterator[int]:
    """A descriptor of the regular file at ``path``, open for the block; links are followed.

    Raises InvalidRequest for any other kind of file, else OSError; never waits for a FIFO's writer.
    """
    with reach(path) as place:
        _refuse_irregular(place, place.stat())  # before it is opened: a FIFO's writer or a device would notice
        with place.opened(READ_FLAGS) as fd:
            _refuse_irregular(place, os.fstat(fd))
            yield fd


def _refuse_irregular(place: Place, found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise InvalidRequest(f"{shown(place.path)} is a directory", kind="isADirectory")
    if not stat.S_ISREG(found.st_mode):
        raise InvalidRequest(f"{shown(place.path)} is not a regular file", kind="invalidInput")


def _read_to_end(fd: int, expected: int, limits: ReadLimits) -> bytes:
    chunks, size = [], 0
    while chunk := os.read(fd, max(expected - size, 0) + READ_AHEAD_BYTES):
        chunks.append(chunk)
        size += len(chunk)
        limits.check(size)
    return b"".join(chunks)
