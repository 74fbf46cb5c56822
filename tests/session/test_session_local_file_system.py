"""Tests of execsrv.session.local_file_system, local_content and local_copy: what only this machine's files can show."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from execsrv.session.environment import CopyOptions, RemoveOptions
from execsrv.session.local_content import kept_mode, write_through
from execsrv.session.local_file_system import LocalFileSystem

NOBODY = 65534
PATIENCE = 20

FS = LocalFileSystem()


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that any user may reach and write, unlike pytest's."""
    path = Path(tempfile.mkdtemp(prefix="execsrv-test-"))
    path.chmod(0o777)
    yield path
    subprocess.run(["rm", "-rf", path], check=True, timeout=PATIENCE)


def unprivileged(function: Callable[[], object]) -> BaseException | None:
    """Run on a thread without root's rights over files (setfsuid(2)); return what it raised."""
    raised: list[BaseException | None] = []

    def run() -> None:
        if os.geteuid() == 0:
            libc = ctypes.CDLL(None)
            libc.setfsgid(NOBODY)
            libc.setfsuid(NOBODY)
        try:
            function()
        except Exception as error:
            raised.append(error)
        else:
            raised.append(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return raised[0]


def test_a_file_that_may_not_be_replaced_is_written_in_place(open_directory: Path) -> None:
    """In a directory where one may make nothing new; a shorter content leaves nothing of a longer one."""
    file = open_directory / "file"
    file.write_bytes(b"a long content")
    file.chmod(0o666)
    open_directory.chmod(0o755 if os.geteuid() == 0 else 0o555)
    before = file.stat().st_ino
    assert unprivileged(lambda: FS.write_file(str(file), b"short")) is None
    assert (file.read_bytes(), file.stat().st_ino) == (b"short", before)
    open_directory.chmod(0o777)


def test_the_owner_of_a_file_stays(open_directory: Path) -> None:
    """Who may not give files away writes in place."""
    file = open_directory / "file"
    file.write_bytes(b"old")
    file.chmod(0o666)
    before = file.stat()
    assert unprivileged(lambda: FS.write_file(str(file), b"new")) is None
    assert file.read_bytes() == b"new"
    assert (file.stat().st_uid, file.stat().st_mode) == (before.st_uid, before.st_mode)
    assert os.listdir(open_directory) == ["file"]


def test_a_write_protected_file_is_not_replaced(open_directory: Path) -> None:
    """Though its directory would allow it."""
    file = open_directory / "file"
    file.write_bytes(b"old")
    file.chmod(0o444)
    if os.geteuid() == 0:
        os.chown(file, NOBODY, NOBODY)
    error = unprivileged(lambda: FS.write_file(str(file), b"new"))
    assert isinstance(error, PermissionError)
    assert (error.filename, file.read_bytes()) == (str(file), b"old")


def test_a_fault_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    """When the content can't be written to its end."""
    (tmp_path / "file").write_bytes(b"old")

    def fill(file: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    with pytest.raises(OSError, match="full"):
        write_through(str(tmp_path / "file"), fill)
    with pytest.raises(OSError, match="full"):
        write_through(str(tmp_path / "new"), fill)
    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_fifo_is_not_even_opened(tmp_path: Path) -> None:
    """Whoever waits for its reader goes on waiting."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=(b"x",), daemon=True)
    writer.start()
    with pytest.raises(OSError):
        FS.read_file(str(fifo))
    with open(fifo, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as reader:
        assert select.select([reader], [], [], PATIENCE)[0]
        writer.join(PATIENCE)
        assert reader.read() == b"x"


def test_a_link_of_proc_is_written_through(tmp_path: Path) -> None:
    """It leads to a file even when that has no name any more."""
    with open(tmp_path / "file", "w+b") as file:
        os.unlink(tmp_path / "file")
        FS.write_file(f"/proc/self/fd/{file.fileno()}", b"content")
        assert file.read() == b"content"
    assert os.listdir(tmp_path) == []


def test_a_copy_does_not_lend_the_rights_of_another_user() -> None:
    """Set-ID bits stay only where owner and group are the same."""

    def stat_of(mode: int, user: int, group: int) -> os.stat_result:
        return os.stat_result((mode, 0, 0, 0, user, group, 0, 0, 0, 0))

    source = stat_of(0o106755, 1, 1)
    kept = [kept_mode(source, stat_of(0o100600, user, group)) for user in (1, 2) for group in (1, 2)]
    assert kept == [0o6755, 0o4755, 0o2755, 0o755]


def test_a_deep_tree_is_copied_without_recursion(open_directory: Path) -> None:
    """Deeper than calls may be nested."""
    levels = sys.getrecursionlimit() + 100
    path = open_directory / "tree"
    path.mkdir()
    for _ in range(levels):
        path /= "d"
        path.mkdir()
    FS.copy(str(open_directory / "tree"), str(open_directory / "copy"), CopyOptions(recursive=True))
    assert (open_directory / "copy" / path.relative_to(open_directory / "tree")).is_dir()


def test_a_tree_with_a_special_file_is_not_copied_whole(tmp_path: Path) -> None:
    """What came before it stays."""
    (tmp_path / "tree").mkdir()
    os.mkfifo(tmp_path / "tree" / "fifo")
    with pytest.raises(OSError) as caught:
        FS.copy(str(tmp_path / "tree"), str(tmp_path / "copy"), CopyOptions(recursive=True))
    assert caught.value.errno == errno.EINVAL
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o700


def test_a_tree_that_may_not_be_changed_is_not_removed(open_directory: Path) -> None:
    """The error names the path that was given."""
    (open_directory / "tree" / "sub").mkdir(parents=True)
    (open_directory / "tree").chmod(0o755 if os.geteuid() == 0 else 0o555)
    error = unprivileged(lambda: FS.remove(str(open_directory / "tree"), RemoveOptions(recursive=True)))
    assert isinstance(error, PermissionError)
    assert error.filename == str(open_directory / "tree")
    (open_directory / "tree").chmod(0o755)
