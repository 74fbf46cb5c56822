"""What is known without a disk."""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from descriptors import open_descriptors

from execsrv.server.files.cached import cached_content, cached_status
from execsrv.server.files.statx import status_of


@pytest.fixture
def local() -> Iterator[Path]:
    """A directory in memory: whatever is in it is cached."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as path:
        yield Path(path)


def test_a_status_is_what_statx_tells(local: Path) -> None:
    """Of a file and of a directory, also with a slash behind it."""
    (local / "file").write_bytes(b"12345")
    for path in (bytes(local / "file"), bytes(local), bytes(local) + b"/"):
        status = cached_status(path)
        assert status is not None and status == status_of(None, path)


def test_a_file_that_was_just_written_is_known(tmp_path: Path) -> None:
    """On the disk of the tests as well, if it is one of this machine."""
    (tmp_path / "file").write_bytes(b"12345")
    status = cached_status(bytes(tmp_path / "file"))
    if status is None:
        pytest.skip("the file system is none of this machine's")
    assert stat.S_ISREG(status.mode) and status.size == 5


@pytest.mark.parametrize("path", ["missing", "file/below", "link", "dangling", "x" * 300])
def test_faults_and_links_are_for_a_thread(local: Path, path: str) -> None:
    """They are told there, in full."""
    (local / "file").touch()
    (local / "link").symlink_to("file")
    (local / "dangling").symlink_to("none")
    assert cached_status(bytes(local / path)) is None
    assert cached_content(bytes(local / path), 10) is None


@pytest.mark.parametrize("path", [b"/proc/self/status", b"/sys/kernel", b"/proc/1"])
def test_other_file_systems_are_for_a_thread(path: bytes) -> None:
    """Whoever makes up their files may take time."""
    assert cached_status(path) is None
    assert cached_content(path, 1000) is None


@pytest.mark.parametrize("content", [b"", b"x", bytes(range(256)) * 16])
def test_a_content_is_whole(tmp_path: Path, content: bytes) -> None:
    """Whatever it is."""
    (tmp_path / "file").write_bytes(content)
    read = cached_content(bytes(tmp_path / "file"), len(content))
    if read is None and content:
        pytest.skip("the file system does not read without waiting")
    assert read == content


def test_a_file_of_a_tmpfs_is_always_in_memory(local: Path) -> None:
    """Which has no way to be read without waiting, and needs none."""
    (local / "file").write_bytes(b"12345")
    assert cached_content(bytes(local / "file"), 5) == b"12345"


def test_a_file_above_the_limit_is_not_read(tmp_path: Path) -> None:
    """By one byte."""
    (tmp_path / "file").write_bytes(b"12345")
    assert cached_content(bytes(tmp_path / "file"), 4) is None


def is_in_memory(fd: int, size: int) -> bool:
    """Has the kernel the first page of a file (mincore(2))? To look does not make it read."""
    with mmap.mmap(fd, size, access=mmap.ACCESS_COPY) as mapped:
        start = ctypes.c_char.from_buffer(mapped)
        told = ctypes.create_string_buffer(size // mmap.PAGESIZE)
        assert ctypes.CDLL(None).mincore(ctypes.byref(start), ctypes.c_size_t(size), told) == 0
        del start  # or the map can't be closed
    return bool(told.raw[0] & 1)


def test_what_is_not_in_memory_is_not_read(tmp_path: Path) -> None:
    """A part that the kernel had to drop makes it a matter for a thread; nothing comes out short."""
    size = 64 * 1024
    (tmp_path / "file").write_bytes(bytes(size))
    with open(tmp_path / "file", "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if is_in_memory(file.fileno(), size):
            pytest.skip("the kernel drops nothing")
    assert cached_content(bytes(tmp_path / "file"), size) is None


def test_only_regular_files_are_read(local: Path) -> None:
    """A FIFO is neither opened nor waited for, nor is a socket or a directory."""
    os.mkfifo(local / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(local / "socket"))
        for name in ("fifo", "socket", "."):
            assert cached_status(bytes(local / name)) is not None
            assert cached_content(bytes(local / name), 10) is None
    with pytest.raises(OSError):  # nobody reads it, so nobody had opened it
        os.open(local / "fifo", os.O_WRONLY | os.O_NONBLOCK)


def test_nothing_stays_open(local: Path) -> None:
    """Whatever comes out."""
    (local / "file").write_bytes(b"12345")
    before = open_descriptors()
    for path in (bytes(local / "file"), bytes(local), bytes(local / "missing"), b"/proc/self/status"):
        for limit in (4, 5):
            cached_status(path)
            cached_content(path, limit)
    assert open_descriptors() <= before
