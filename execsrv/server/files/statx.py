"""statx(2), which tells when a file was made: the one time that Python's ``os.stat`` does not tell on Linux."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import NamedTuple

# <linux/stat.h> and <linux/fcntl.h>
_AT_FDCWD = -100
_AT_NO_AUTOMOUNT = 0x800  # as stat(2) does
_AT_EMPTY_PATH = 0x1000
_STATX_BASIC_STATS = 0x7FF
_STATX_BTIME = 0x800
_STATX = struct.Struct("=I24xH10xQ32x qI4x 16x qI4x 128x")  # mask, mode, size, birth, modification
_SECOND_NS = 1_000_000_000

_statx = getattr(ctypes.CDLL(None), "statx", None)
_statx_at_once = getattr(ctypes.PyDLL(None), "statx", None)  # lets no other thread run meanwhile


class Status(NamedTuple):
    """What statx(2) tells: the size in bytes, times in nanoseconds since the epoch. born_ns: None when unknown."""

    mode: int
    size: int
    born_ns: int | None
    modified_ns: int


def status_of(directory: int | None, path: bytes) -> Status | None:
    """The file at ``path`` from the descriptor ``directory`` on, links followed.

    None when it is not there, or the kernel or the C library has no statx.
    """
    return _call(_statx, _AT_FDCWD if directory is None else directory, path, _AT_NO_AUTOMOUNT)


def status_of_opened(fd: int) -> Status | None:
    """The file that ``fd`` leads to, which must not be one that the disk has to be asked for."""
    return _call(_statx_at_once, fd, b"", _AT_EMPTY_PATH)


def _call(statx: Callable[..., int] | None, directory: int, path: bytes, flags: int) -> Status | None:
    answer = ctypes.create_string_buffer(_STATX.size)
    if statx is None or statx(directory, path, flags, _STATX_BASIC_STATS | _STATX_BTIME, answer):
        return None
    mask, mode, size, born_s, born_ns, modified_s, modified_ns = _STATX.unpack(answer)
    born = born_s * _SECOND_NS + born_ns if mask & _STATX_BTIME else None
    return Status(mode, size, born, modified_s * _SECOND_NS + modified_ns)
