"""Trees too deep for recursion in Python, and paths too long for PATH_MAX."""

from __future__ import annotations

import os
from pathlib import Path

#: Levels of a tree whose names have one letter, far above Python's limit for recursion.
DEEP_LEVELS = 3000

#: Names of as many letters as a system takes, together far above PATH_MAX.
LONG_NAMES = ["d" * 250] * 20


def deep_path(top: Path) -> bytes:
    """The bottom of a deep tree at ``top``."""
    return bytes(top) + b"/d" * DEEP_LEVELS


def long_path(top: Path) -> bytes:
    """The bottom of a tree of long names at ``top``."""
    return b"/".join([bytes(top), *map(str.encode, LONG_NAMES)])


def make_levels(top: Path, names: list[str]) -> None:
    """Make directories in one another below ``top``, and the file ``leaf`` in the last."""
    directory = os.open(top, os.O_PATH)
    for name in names:
        os.mkdir(name, dir_fd=directory)
        child = os.open(name, os.O_PATH, dir_fd=directory)
        os.close(directory)
        directory = child
    leaf = os.open("leaf", os.O_WRONLY | os.O_CREAT, 0o640, dir_fd=directory)
    os.write(leaf, b"deep")
    os.close(leaf)
    os.close(directory)
