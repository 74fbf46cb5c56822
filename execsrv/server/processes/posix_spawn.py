"""posix_spawn(3) with a working directory, which ``os.posix_spawn`` does not offer.

The call goes through ctypes, which lets other threads run meanwhile. The child is made by vfork, so a start costs
the same however large the server is.
"""

from __future__ import annotations

import ctypes
import functools
import os
import signal
from collections.abc import Sequence
from types import TracebackType

_libc = ctypes.CDLL(None, use_errno=True)

# Larger than posix_spawn_file_actions_t (80 bytes), posix_spawnattr_t (336) and sigset_t (128) of glibc and musl.
_OPAQUE_BYTES = 1024

# <spawn.h>
_SETSIGDEF, _SETSIGMASK, _SETSID = 0x04, 0x08, 0x80


class FileActions:
    """What the child does to its descriptors and its directory before it becomes the program, in order."""

    def __init__(self) -> None:
        self._actions = ctypes.create_string_buffer(_OPAQUE_BYTES)

    def __enter__(self) -> FileActions:
        _check(_libc.posix_spawn_file_actions_init(self._actions))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        _libc.posix_spawn_file_actions_destroy(self._actions)

    def open(self, fd: int, path: bytes, flags: int) -> None:
        """Open ``path`` as ``fd``."""
        _check(_libc.posix_spawn_file_actions_addopen(self._actions, fd, path, flags, 0))

    def dup2(self, source: int, target: int) -> None:
        """Make ``target`` a copy of ``source`` that the program keeps."""
        _check(_libc.posix_spawn_file_actions_adddup2(self._actions, source, target))

    def chdir(self, path: bytes) -> None:
        """Change to the directory ``path``."""
        _check(_libc.posix_spawn_file_actions_addchdir_np(self._actions, path))

    def close_from(self, fd: int) -> None:
        """Close ``fd`` and all above; a libc that can't leaves open what is not close-on-exec."""
        if hasattr(_libc, "posix_spawn_file_actions_addclosefrom_np"):  # glibc 2.34
            _check(_libc.posix_spawn_file_actions_addclosefrom_np(self._actions, fd))

    def spawn(self, program: bytes, argv: Sequence[bytes], env: dict[bytes, bytes]) -> int:
        """Start ``program``, which leads a session of its own, and return its pid.

        The child has default signal dispositions and an empty signal mask. Raises OSError with the error of the
        action, or of execve(2), that failed.
        """
        pid = ctypes.c_int()
        variables = [name + b"=" + value for name, value in env.items()]
        _check(
            _libc.posix_spawn(
                ctypes.byref(pid), program, self._actions, _session_leader(), _strings(argv), _strings(variables)
            )
        )
        return pid.value


def _strings(values: Sequence[bytes]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * (len(values) + 1))(*values, None)


@functools.cache
def _session_leader() -> ctypes.Array[ctypes.c_char]:
    """The attributes of every child. They hold no resources, so nothing has to destroy them."""
    attributes = ctypes.create_string_buffer(_OPAQUE_BYTES)
    _check(_libc.posix_spawnattr_init(attributes))
    _check(_libc.posix_spawnattr_setflags(attributes, ctypes.c_short(_SETSID | _SETSIGDEF | _SETSIGMASK)))
    signals = ctypes.create_string_buffer(_OPAQUE_BYTES)
    _libc.sigemptyset(signals)
    _check(_libc.posix_spawnattr_setsigmask(attributes, signals))
    _libc.sigfillset(signals)
    for unchangeable in (signal.SIGKILL, signal.SIGSTOP):
        _libc.sigdelset(signals, unchangeable)
    _check(_libc.posix_spawnattr_setsigdefault(attributes, signals))
    return attributes


def _check(error: int) -> None:
    """The functions of this family return the error number."""
    if error:
        raise OSError(error, os.strerror(error))
