"""Walks a tree of any depth with two descriptors at most, where nobody can lead it out of the tree."""

from __future__ import annotations

import errno
import os

from execsrv.server.files.places import Place

_FLAGS = os.O_RDONLY | os.O_DIRECTORY


class TreeCursor:
    """One open directory, ``fd``, that moves down by name and up again.

    Going down follows no link, so a directory that someone swaps for a link is an error (ENOTDIR). Going up checks
    that the parent is the directory it came from, so one that someone moved elsewhere is an error too (ESTALE).
    Whoever made it closes it.
    """

    def __init__(self, place: Place, follow: bool = False) -> None:
        """Open the directory at ``place``; with ``follow`` a link may lead to it. Raises OSError."""
        flags = _FLAGS if follow else _FLAGS | os.O_NOFOLLOW
        self.fd = os.open(place.path, flags, dir_fd=place.directory)
        self._trail: list[tuple[bytes, os.stat_result]] = []

    def entries(self) -> list[tuple[bytes, bool]]:
        """Every entry's name, and whether it is a directory (a link to one is not). Raises OSError.

        A directory that was removed meanwhile has none (readdir(3)).
        """
        with os.scandir(self.fd) as found:
            return [(os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)) for entry in found]

    def enter(self, name: bytes) -> None:
        """Go down into ``name``. Raises OSError and stays."""
        here = os.fstat(self.fd)
        self._move_to(os.open(name, _FLAGS | os.O_NOFOLLOW, dir_fd=self.fd))
        self._trail.append((name, here))

    def leave(self) -> bytes:
        """Go up and return the name that was left. Raises OSError and stays."""
        name, expected = self._trail[-1]
        parent = os.open(b"..", _FLAGS, dir_fd=self.fd)
        if not os.path.samestat(os.fstat(parent), expected):
            os.close(parent)
            raise OSError(errno.ESTALE, "a directory was moved out of the tree meanwhile")
        self._move_to(parent)
        self._trail.pop()
        return name

    def close(self) -> None:
        """Close the directory. Once only."""
        os.close(self.fd)

    def _move_to(self, fd: int) -> None:
        os.close(self.fd)
        self.fd = fd
