"""statx(2)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from execsrv.server.files.statx import Status, status_of, status_of_opened


def test_it_tells_what_stat_tells(tmp_path: Path) -> None:
    """Mode, size and time of modification; links are followed; from a directory on, and of what is open."""
    (tmp_path / "file").write_bytes(b"12345")
    os.utime(tmp_path / "file", ns=(1, -1_500_000_000))
    (tmp_path / "link").symlink_to("file")
    found = os.stat(tmp_path / "file")
    status = status_of(None, bytes(tmp_path / "link"))
    assert status == Status(found.st_mode, 5, status.born_ns, -1_500_000_000)
    directory, opened = os.open(tmp_path, os.O_PATH), os.open(tmp_path / "file", os.O_PATH)
    assert status_of(directory, b"file") == status_of_opened(opened) == status
    os.close(directory)
    os.close(opened)


def test_it_tells_the_birth(tmp_path: Path) -> None:
    """The second agrees with the system's own tool, also when the file was changed since."""
    (tmp_path / "file").touch()
    os.utime(tmp_path / "file", (1, 1))
    told = int(subprocess.run(["stat", "-c", "%W", tmp_path / "file"], capture_output=True, check=True).stdout)
    if told == 0:
        pytest.skip("the file system keeps no time of birth")
    assert status_of(None, bytes(tmp_path / "file")).born_ns // 1_000_000_000 == told


def test_a_birth_that_nobody_knows_is_none() -> None:
    """On a file system without such times."""
    assert status_of(None, b"/proc/self/status").born_ns is None


def test_a_missing_file_is_none() -> None:
    """There is no status."""
    assert status_of(None, b"/no/such/file") is None
