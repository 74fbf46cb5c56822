"""What the kernel knows without a disk: answers that need no thread, since nothing here can wait.

Both functions return None when a disk or another machine would have to be asked, and for whatever is not plain: then
ask on a thread, where every fault is found, too.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from execsrv.server.files.places import READ_FLAGS
from execsrv.server.files.statx import Status, status_of_opened

# openat2(2); the system call has this number on all architectures that have been added since 2011, and on x86.
_SYS_OPENAT2 = 437
_AT_FDCWD = -100
_RESOLVE_CACHED = 0x20
_HOW = struct.pack("=QQQ", os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, 0, _RESOLVE_CACHED)

_TMPFS = 0x01021994  # statfs(2)

#: File systems that this machine serves itself, by their type: ext, xfs, btrfs, f2fs, overlay, tmpfs.
_LOCAL = {0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0x794C7630, _TMPFS}
_STATFS_BYTES = 256

_libc = ctypes.PyDLL(None)  # lets no other thread run meanwhile
_libc.syscall.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
_libc.syscall.restype = ctypes.c_long


def cached_status(path: bytes) -> Status | None:
    """What kind of file is at ``path``, and its size and times; None for a link."""
    with _found(path) as fd:
        status = None if fd is None else status_of_opened(fd)
    return None if status is None or stat.S_ISLNK(status.mode) else status


def cached_content(path: bytes, max_bytes: int) -> bytes | None:
    """The content of the regular file at ``path``; None when it has more than ``max_bytes``."""
    with _found(path) as fd:
        status = None if fd is None else status_of_opened(fd)
        if fd is None or status is None or not stat.S_ISREG(status.mode) or status.size > max_bytes:
            return None
        # A tmpfs refuses RWF_NOWAIT. Its files are memory and, like our own, wait only when they were swapped out.
        flags = 0 if _file_system(fd) == _TMPFS else os.RWF_NOWAIT
        return _read(f"/proc/self/fd/{fd}", status.size, flags)


@contextmanager
def _found(path: bytes) -> Iterator[int | None]:
    """A descriptor of what is at ``path`` itself, for the block, which can be asked but not read (O_PATH, open(2))."""
    fd = _libc.syscall(_SYS_OPENAT2, _AT_FDCWD, path, _HOW, len(_HOW))
    if fd < 0:
        yield None
        return
    try:
        yield fd if _file_system(fd) in _LOCAL else None
    finally:
        os.close(fd)


def _file_system(fd: int) -> int:
    answer = ctypes.create_string_buffer(_STATFS_BYTES)
    return 0 if _libc.fstatfs(fd, answer) else ctypes.c_long.from_buffer(answer).value & 0xFFFFFFFF


def _read(path: str, size: int, flags: int) -> bytes | None:
    """All of a file, if that is ``size`` bytes that can be had with these flags (preadv2(2))."""
    content = bytearray(size + 1)
    try:
        fd = os.open(path, READ_FLAGS)
        try:
            return bytes(content[:size]) if os.preadv(fd, [content], 0, flags) == size else None
        finally:
            os.close(fd)
    except OSError:
        return None
