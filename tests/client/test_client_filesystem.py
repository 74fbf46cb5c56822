"""Tests of execsrv.client.filesystem on real files, through a real server."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from execsrv.client.client import ExecServerClient
from execsrv.client.errors import ServerError
from execsrv.client.filesystem import FileSystem

ODD_NAME = b"caf\xe9"


@pytest.fixture
def fs(local_client: ExecServerClient) -> FileSystem:
    """The files of a real server."""
    return local_client.fs


def test_bytes_go_there_and_back(fs: FileSystem, tmp_path: Path) -> None:
    """Whatever they are."""
    data = bytes(range(256)) * 1000
    fs.write_bytes(tmp_path / "file", data)
    assert (tmp_path / "file").read_bytes() == data
    assert fs.read_bytes(tmp_path / "file") == data


def test_text_keeps_its_line_ends(fs: FileSystem, tmp_path: Path) -> None:
    """It is encoded as UTF-8 unless told otherwise."""
    fs.write_text(tmp_path / "file", "grüße\r\n")
    assert (tmp_path / "file").read_bytes() == b"gr\xc3\xbc\xc3\x9fe\r\n"
    assert fs.read_text(tmp_path / "file") == "grüße\r\n"
    fs.write_text(tmp_path / "file", "é", encoding="latin-1")
    assert fs.read_text(tmp_path / "file", encoding="latin-1") == "é"


def test_every_kind_of_path_is_taken(fs: FileSystem, tmp_path: Path) -> None:
    """str, bytes, objects with a path, and names that are not UTF-8."""
    raw = os.fsencode(tmp_path)
    for path in (tmp_path / "one", os.fspath(tmp_path / "two"), raw + b"/three", raw + b"/" + ODD_NAME):
        fs.write_bytes(path, b"x")
    assert sorted(os.listdir(raw)) == sorted([b"one", b"two", b"three", ODD_NAME])


def test_listdir_is_like_os(fs: FileSystem, tmp_path: Path) -> None:
    """Names that are not UTF-8 come as ``os`` has them and lead back to the file."""
    (tmp_path / "plain").write_bytes(b"")
    with open(os.fsencode(tmp_path) + b"/" + ODD_NAME, "wb") as file:
        file.write(b"odd")
    assert sorted(fs.listdir(tmp_path)) == sorted(os.listdir(tmp_path))
    assert fs.read_bytes(tmp_path / os.fsdecode(ODD_NAME)) == b"odd"


def test_scandir_tells_types(fs: FileSystem, tmp_path: Path) -> None:
    """Without following links."""
    (tmp_path / "dir").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("dir")
    types = {e.file_name: (e.is_directory, e.is_file, e.is_symlink) for e in fs.scandir(tmp_path)}
    assert types == {"dir": (True, False, False), "file": (False, True, False), "link": (False, False, True)}


def test_stat_follows_links(fs: FileSystem, tmp_path: Path) -> None:
    """But tells that there was one."""
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    found = fs.stat(tmp_path / "link")
    assert (found.is_file, found.is_symlink, found.size) == (True, True, 5)
    assert found.modified_at_ms == (tmp_path / "file").stat().st_mtime_ns // 1_000_000


def test_questions_about_paths(fs: FileSystem, tmp_path: Path) -> None:
    """What is not there is no error."""
    file = tmp_path / "file"
    file.touch()
    (tmp_path / "broken").symlink_to("nowhere")
    assert fs.exists(tmp_path) and fs.is_dir(tmp_path) and not fs.is_file(tmp_path)
    assert fs.exists(file) and fs.is_file(file) and not fs.is_dir(file)
    for missing in (tmp_path / "missing", file / "below", tmp_path / "broken"):
        assert not (fs.exists(missing) or fs.is_file(missing) or fs.is_dir(missing))


def test_mkdir(fs: FileSystem, tmp_path: Path) -> None:
    """With and without parents, and when it is there already."""
    fs.mkdir(tmp_path / "a")
    with pytest.raises(FileExistsError):
        fs.mkdir(tmp_path / "a")
    fs.mkdir(tmp_path / "a", exist_ok=True)
    with pytest.raises(FileNotFoundError):
        fs.mkdir(tmp_path / "b" / "c")
    fs.mkdir(tmp_path / "b" / "c", parents=True)
    with pytest.raises(FileExistsError):
        fs.mkdir(tmp_path / "b" / "c", parents=True)
    fs.mkdir(tmp_path / "b" / "c" / "d" / "e", parents=True, exist_ok=True)
    assert (tmp_path / "b" / "c" / "d" / "e").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        fs.mkdir(tmp_path / "file", exist_ok=True)


def test_remove(fs: FileSystem, tmp_path: Path) -> None:
    """A whole tree only on demand, and something missing only if that is fine."""
    (tmp_path / "dir" / "sub").mkdir(parents=True)
    with pytest.raises(OSError) as caught:
        fs.remove(tmp_path / "dir")
    assert caught.value.errno == errno.ENOTEMPTY
    fs.remove(tmp_path / "dir", recursive=True)
    with pytest.raises(FileNotFoundError):
        fs.remove(tmp_path / "dir")
    fs.remove(tmp_path / "dir", missing_ok=True)
    assert os.listdir(tmp_path) == []


def test_copy(fs: FileSystem, tmp_path: Path) -> None:
    """A file as it is, a directory on demand."""
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "file").write_bytes(b"x")
    fs.copy(tmp_path / "dir" / "file", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"x"
    with pytest.raises(ServerError, match="requires recursive"):
        fs.copy(tmp_path / "dir", tmp_path / "other")
    fs.copy(tmp_path / "dir", tmp_path / "other", recursive=True)
    assert (tmp_path / "other" / "file").read_bytes() == b"x"


def test_errors_name_the_path(fs: FileSystem, tmp_path: Path) -> None:
    """And keep the server's own words."""
    missing = tmp_path / "missing"
    with pytest.raises(FileNotFoundError) as caught:
        fs.read_bytes(missing)
    assert caught.value.filename == missing
    assert caught.value.errno == errno.ENOENT
    assert isinstance(caught.value.__cause__, ServerError)
    with pytest.raises(FileNotFoundError) as caught:
        fs.copy(missing, tmp_path / "copy")
    assert (caught.value.filename, caught.value.filename2) == (missing, tmp_path / "copy")
