"""A file's time of birth."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from execsrv.server.files.birth_time import birth_time_ns
from execsrv.server.files.places import Place


def test_it_is_what_stat_tells(tmp_path: Path) -> None:
    """The second agrees with the system's own tool, also when the file was changed since; links are followed."""
    (tmp_path / "file").touch()
    os.utime(tmp_path / "file", (1, 1))
    (tmp_path / "link").symlink_to("file")
    told = int(subprocess.run(["stat", "-c", "%W", tmp_path / "file"], capture_output=True, check=True).stdout)
    if told == 0:
        pytest.skip("the file system keeps no time of birth")
    birth = birth_time_ns(Place(None, bytes(tmp_path / "link")))
    assert birth is not None and birth // 1_000_000_000 == told
    directory = os.open(tmp_path, os.O_PATH)
    assert birth_time_ns(Place(directory, b"file")) == birth
    os.close(directory)


@pytest.mark.parametrize("path", [b"/no/such/file", b"/proc/self/status"])
def test_it_is_none_when_nobody_knows(path: bytes) -> None:
    """A missing file, a file system without such times."""
    assert birth_time_ns(Place(None, path)) is None
