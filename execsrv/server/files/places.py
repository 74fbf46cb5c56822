"""Reaches files whose paths may be longer than the system takes in one piece.

Calls such as open(2) refuse paths above PATH_MAX. The ``*at`` calls start from a directory's descriptor instead; a
``Place`` is what they want. Names and paths are bytes throughout.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

#: Longest path given to the system at once: PATH_MAX (limits.h), less room for another name of the same directory.
LONGEST_PATH = 4096 - 256

#: Opens a file to be read, and never waits for a FIFO's writer or makes a terminal ours.
READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY

_WALK_FLAGS = os.O_PATH | os.O_DIRECTORY


@dataclass(frozen=True, slots=True)
class Place:
    """A path as the ``*at`` calls take it: from ``directory`` on, or absolute when that is None.

    The descriptor belongs to whoever made the place.
    """

    directory: int | None
    path: bytes

    def stat(self, follow: bool = True) -> os.stat_result:
        """The file here; with ``follow`` what a link leads to. Raises OSError."""
        return os.stat(self.path, dir_fd=self.directory, follow_symlinks=follow)

    def stat_or_none(self, follow: bool = True) -> os.stat_result | None:
        """As ``stat``, but None when nothing is there."""
        try:
            return self.stat(follow)
        except FileNotFoundError:
            return None

    def sibling(self, name: bytes) -> Place:
        """``name`` in the same directory as this place."""
        return Place(self.directory, os.path.join(os.path.dirname(self.path), name))

    @contextmanager
    def opened(self, flags: int, mode: int = 0) -> Iterator[int]:
        """A descriptor of the file here, open for the block. Raises OSError."""
        fd = os.open(self.path, flags, mode, dir_fd=self.directory)
        try:
            yield fd
        finally:
            os.close(fd)


@contextmanager
def reach(path: bytes) -> Iterator[Place]:
    """The place of an absolute path of any length, for the block. Raises OSError when nothing leads there."""
    if len(path) <= LONGEST_PATH:
        yield Place(None, path)
        return
    parent, _, name = path.rstrip(b"/").rpartition(b"/")
    with _walked(parent, make=False) as directory:
        yield Place(directory, name + b"/" if path.endswith(b"/") else name)


def make_directories(path: bytes) -> None:
    """Make the directory ``path`` and those above it; what is there already is no fault. Raises OSError."""
    with _walked(path, make=True):
        pass


@contextmanager
def _walked(path: bytes, make: bool) -> Iterator[int]:
    """The directory that ``path`` leads to from the root, links followed; ``make`` makes what is missing."""
    directory = os.open(b"/", _WALK_FLAGS)
    try:
        for name in filter(None, path.split(b"/")):
            child = _enter(directory, name, make)
            os.close(directory)
            directory = child
        yield directory
    finally:
        os.close(directory)


def _enter(directory: int, name: bytes, make: bool) -> int:
    try:
        return os.open(name, _WALK_FLAGS, dir_fd=directory)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):  # somebody else may have made it just now
        os.mkdir(name, dir_fd=directory)
    return os.open(name, _WALK_FLAGS, dir_fd=directory)
