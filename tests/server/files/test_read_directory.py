"""Listing a directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from deep_paths import long_path

from execsrv.errors import InvalidRequest
from execsrv.protocol.files import DirectoryEntry
from execsrv.server.files.read_directory import ENTRY_BYTES, read_directory

MIB = 1024 * 1024


def test_each_kind_of_entry_is_told(tmp_path: Path) -> None:
    """Links are links, wherever they lead; a FIFO is none of the three; the order is that of the names."""
    (tmp_path / "file").touch()
    (tmp_path / "directory").mkdir()
    (tmp_path / "link-to-directory").symlink_to("directory")
    (tmp_path / "link-to-nothing").symlink_to("none")
    os.mkfifo(tmp_path / "fifo")
    assert read_directory(bytes(tmp_path), MIB) == [
        DirectoryEntry("directory", is_directory=True, is_file=False, is_symlink=False),
        DirectoryEntry("fifo", is_directory=False, is_file=False, is_symlink=False),
        DirectoryEntry("file", is_directory=False, is_file=True, is_symlink=False),
        DirectoryEntry("link-to-directory", is_directory=False, is_file=False, is_symlink=True),
        DirectoryEntry("link-to-nothing", is_directory=False, is_file=False, is_symlink=True),
    ]


def test_a_name_that_is_not_utf8_comes_with_its_bytes(tmp_path: Path) -> None:
    """U+FFFD stands for what is no text; a name that holds a real U+FFFD needs no bytes."""
    (tmp_path / "h\ufffd").touch()
    open(bytes(tmp_path) + b"/\xe4\xff", "w").close()
    (tmp_path / "ä").touch()
    names = [(entry.file_name, entry.file_name_base64) for entry in read_directory(bytes(tmp_path), MIB)]
    assert names == [("h\ufffd", None), ("ä", None), ("\ufffd\ufffd", b"\xe4\xff")]


def test_the_directory_itself_may_be_a_link(tmp_path: Path) -> None:
    """The path is followed, what is in it is not."""
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory/file").touch()
    (tmp_path / "link").symlink_to("directory")
    assert [entry.file_name for entry in read_directory(bytes(tmp_path / "link"), MIB)] == ["file"]


def test_an_empty_directory_has_no_entries(tmp_path: Path) -> None:
    """Not even . and .. are listed."""
    assert read_directory(bytes(tmp_path), MIB) == []


def test_a_directory_too_large_for_an_answer_is_refused(tmp_path: Path) -> None:
    """The limit counts the least that the entries take in JSON."""
    for number in range(10):
        (tmp_path / f"{number:04}").touch()
    size = 10 * (ENTRY_BYTES + 4)
    assert len(read_directory(bytes(tmp_path), size)) == 10
    with pytest.raises(InvalidRequest) as caught:
        read_directory(bytes(tmp_path), size - 1)
    assert caught.value.kind == "tooLarge"


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    """Nor is a FIFO, which is not waited for."""
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "fifo")
    for name in ("file", "fifo"):
        with pytest.raises(NotADirectoryError):
            read_directory(bytes(tmp_path / name), MIB)


def test_a_directory_with_a_long_path_is_listed(long_tree: Path) -> None:
    """Its path is longer than PATH_MAX."""
    assert [entry.file_name for entry in read_directory(long_path(long_tree), MIB)] == ["leaf"]
