"""Directories that need care when they are made or removed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from deep_paths import DEEP_LEVELS, LONG_NAMES, make_levels


@pytest.fixture
def deep_directory() -> Iterator[Path]:
    """A directory for deep trees: in memory, where they are fast; not pytest's, which it cleans by recursion."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = tempfile.mkdtemp(prefix="execsrv-test-", dir=memory)
    yield Path(path)
    subprocess.run(["rm", "-rf", path], check=True, timeout=60)


@pytest.fixture
def deep_tree(deep_directory: Path) -> Path:
    """A directory ``tree`` with DEEP_LEVELS levels below it, the last of which holds the file ``leaf``."""
    top = deep_directory / "tree"
    top.mkdir()
    make_levels(top, ["d"] * DEEP_LEVELS)
    return top


@pytest.fixture
def long_tree(tmp_path: Path) -> Path:
    """A directory ``long`` with LONG_NAMES below it, the last of which holds the file ``leaf``."""
    top = tmp_path / "long"
    top.mkdir()
    make_levels(top, LONG_NAMES)
    return top


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that any user may reach and write, unlike pytest's."""
    path = Path(tempfile.mkdtemp(prefix="execsrv-test-"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path)
