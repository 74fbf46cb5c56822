"""When a file was made: the one time that Python's ``os.stat`` does not tell on Linux."""

from __future__ import annotations

import ctypes
import struct

from execsrv.server.files.places import Place

# statx(2) and <linux/stat.h>
_AT_FDCWD = -100
_AT_NO_AUTOMOUNT = 0x800  # as stat(2) does
_STATX_BTIME = 0x800
_STATX_BYTES = 256
_MASK = struct.Struct("=I")
_BTIME = struct.Struct("=qI")
_BTIME_OFFSET = 80

_libc = ctypes.CDLL(None)


def birth_time_ns(place: Place) -> int | None:
    """Nanoseconds from the epoch to the birth of the file at ``place``, links followed.

    None when the file system, the kernel or the C library does not know, or the file is not there.
    """
    if not hasattr(_libc, "statx"):
        return None
    directory = _AT_FDCWD if place.directory is None else place.directory
    answer = ctypes.create_string_buffer(_STATX_BYTES)
    failed = _libc.statx(directory, ctypes.c_char_p(place.path), _AT_NO_AUTOMOUNT, _STATX_BTIME, answer)
    (known,) = _MASK.unpack_from(answer)
    if failed or not known & _STATX_BTIME:
        return None
    seconds, nanoseconds = _BTIME.unpack_from(answer, _BTIME_OFFSET)
    return int(seconds * 1_000_000_000 + nanoseconds)
