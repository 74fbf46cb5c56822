"""Drafts: unseen until they have their name, gone without it, and copied where they can't have it."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deep_paths import long_path
from own_thread import NOBODY, in_time, unprivileged, with_bind_mount

from execsrv.errors import InvalidRequest
from execsrv.server.files.draft import draft_content, opened_draft
from execsrv.server.files.places import Place, reach
from execsrv.server.files.write_file import _named, write_through

KIB, TIB = 1 << 10, 1 << 40

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")

#: Blocks with a hole before, between and behind a block that overlaps; and what a file of them holds.
BLOCKS = [(300 * KIB, b"last"), (100 * KIB, b"first"), (100 * KIB + 2, b"RST")]
WHOLE = bytes(100 * KIB) + b"fiRST" + bytes(200 * KIB - 5) + b"last"


def commit(path: Path | str, *blocks: tuple[int, bytes], meanwhile: Callable[[], object] = lambda: None) -> int:
    """Write blocks into a draft and make it the file at ``path``; the draft's inode."""
    with opened_draft(os.fsencode(path)) as draft:
        for offset, data in blocks:
            os.pwrite(draft, data, offset)
        meanwhile()
        write_through(os.fsencode(path), draft_content(draft))
        return os.fstat(draft).st_ino


def fault_of(path: Path | str) -> BaseException:
    """What opening a draft of the file at ``path`` raises, in time."""

    def attempt() -> None:
        with opened_draft(os.fsencode(path)):
            pass

    with pytest.raises((OSError, InvalidRequest)) as caught:
        in_time(attempt)
    return caught.value


@pytest.fixture
def other_file_system(tmp_path: Path) -> Iterator[Path]:
    """A directory that no file of ``tmp_path`` can get a name in."""
    path = Path("/dev/shm", f"execsrv-test-{os.getpid()}")
    try:
        path.mkdir()
    except OSError:
        pytest.skip("no file system in memory")
    try:
        if path.stat().st_dev == tmp_path.stat().st_dev:
            pytest.skip("one file system for all")
        yield path
    finally:
        shutil.rmtree(path)


# ---- becoming a file -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("old", [None, b"old" * 200 * KIB], ids=["new", "replaced"])
def test_a_draft_is_unseen_until_it_is_the_file(tmp_path: Path, old: bytes | None) -> None:
    """It is not copied then, and nothing else ever appears in the directory."""
    path = tmp_path / "file"
    if old:
        path.write_bytes(old)

    def look() -> None:
        assert os.listdir(tmp_path) == (["file"] if old else [])
        assert not old or path.read_bytes() == old

    inode = commit(path, *BLOCKS, meanwhile=look)
    assert (path.read_bytes(), path.stat().st_ino) == (WHOLE, inode)
    assert os.listdir(tmp_path) == ["file"]


def test_an_empty_draft_is_an_empty_file(tmp_path: Path) -> None:
    """Also in place of another one."""
    (tmp_path / "old").write_bytes(b"old")
    for name in ("old", "new"):
        commit(tmp_path / name)
        assert (tmp_path / name).read_bytes() == b""


def test_a_draft_vanishes_with_its_descriptor(tmp_path: Path) -> None:
    """It has no name, so nobody has to remove it."""
    with opened_draft(bytes(tmp_path / "file")) as draft:
        os.write(draft, b"lost")
        assert os.fstat(draft).st_nlink == 0
    assert os.listdir(tmp_path) == []
    with pytest.raises(OSError):
        os.fstat(draft)


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_new_file_gets_the_mode_that_the_umask_leaves(tmp_path: Path, umask: int) -> None:
    """0666 less the umask."""
    code = (
        "import os, sys; from execsrv.server.files.draft import draft_content, opened_draft\n"
        "from execsrv.server.files.write_file import write_through\n"
        "path = os.fsencode(sys.argv[1]); os.umask(int(sys.argv[2]))\n"
        "with opened_draft(path) as draft: write_through(path, draft_content(draft))\n"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "file", str(umask)], check=True, timeout=60)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~umask


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o4755, 0o666])
def test_the_mode_of_an_existing_file_stays(tmp_path: Path, mode: int) -> None:
    """Also of one that appeared after the draft was opened."""
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "file").chmod(mode)
    commit(tmp_path / "file", *BLOCKS)

    def appear() -> None:
        (tmp_path / "late").touch()
        (tmp_path / "late").chmod(mode)

    commit(tmp_path / "late", *BLOCKS, meanwhile=appear)
    for name in ("file", "late"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode
        assert (tmp_path / name).read_bytes() == WHOLE


def test_a_file_that_went_meanwhile_is_made_anew(tmp_path: Path) -> None:
    """With the mode of a new one."""
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "file").chmod(0o600)
    (tmp_path / "model").touch()
    commit(tmp_path / "file", *BLOCKS, meanwhile=(tmp_path / "file").unlink)
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "model").stat().st_mode
    assert (tmp_path / "file").read_bytes() == WHOLE


def test_a_draft_with_a_passing_name_is_private(tmp_path: Path) -> None:
    """Until it has the mode of the file that it replaces, which may be private too."""
    with opened_draft(bytes(tmp_path / "file")) as draft:
        assert _named(draft, Place(None, bytes(tmp_path / "passing")), private=True)
    assert stat.S_IMODE((tmp_path / "passing").stat().st_mode) == 0o600


@as_root
def test_the_owner_of_an_existing_file_stays(tmp_path: Path) -> None:
    """User and group."""
    (tmp_path / "file").write_bytes(b"old")
    os.chown(tmp_path / "file", NOBODY, 12345)
    (tmp_path / "file").chmod(0o4711)
    inode = commit(tmp_path / "file", *BLOCKS)
    found = (tmp_path / "file").stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (NOBODY, 12345, 0o4711)
    assert found.st_ino == inode, "it was copied"


def test_a_link_is_written_through(tmp_path: Path) -> None:
    """To a file that is there, and to one that is not."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a/file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("a/file")
    (tmp_path / "dangling").symlink_to("a/new")
    for name, target in (("link", "file"), ("dangling", "new")):
        inode = commit(tmp_path / name, *BLOCKS)
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / "a" / target).read_bytes() == WHOLE
        assert (tmp_path / "a" / target).stat().st_ino == inode
    assert sorted(os.listdir(tmp_path / "a")) == ["file", "new"]


def test_a_file_with_a_long_path_is_written(long_tree: Path) -> None:
    """Its path is longer than PATH_MAX."""
    path = long_path(long_tree) + b"/leaf"
    with opened_draft(path) as draft:
        os.write(draft, b"new content")
        write_through(path, draft_content(draft))
        with reach(path) as place:
            assert (place.stat().st_size, place.stat().st_ino) == (11, os.fstat(draft).st_ino)


# ---- what can't be written -----------------------------------------------------------------------------------------


def test_what_takes_no_content_is_refused_at_once(tmp_path: Path) -> None:
    """Before anything is written: a directory, a FIFO, a socket."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
    kinds = {"fifo": "invalidInput", "link": "invalidInput", "socket": "invalidInput", ".": "isADirectory"}
    for name, kind in kinds.items():
        fault = fault_of(tmp_path / name)
        assert isinstance(fault, InvalidRequest) and fault.kind == kind


@pytest.mark.parametrize(
    "name, number",
    [
        ("none/file", errno.ENOENT),
        ("new/", errno.ENOENT),
        ("file/", errno.ENOTDIR),
        ("file/x", errno.ENOTDIR),
        ("loop", errno.ELOOP),
        ("dangling", errno.ENOENT),
        ("x" * 300, errno.ENAMETOOLONG),
    ],
)
def test_a_path_that_can_lead_to_no_file_is_an_error_at_once(tmp_path: Path, name: str, number: int) -> None:
    """Missing directories, files in the way, circles."""
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("none/file")
    fault = fault_of(f"{tmp_path}/{name}")
    assert isinstance(fault, OSError) and fault.errno == number


def own(path: Path) -> Path:
    """Give ``path`` to the user of ``unprivileged``."""
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)
    return path


def test_what_is_protected_is_an_error_at_once(open_directory: Path) -> None:
    """A file whose mode forbids writing, and a new one in such a directory."""
    (open_directory / "file").write_bytes(b"old")
    own(open_directory / "file").chmod(0o444)
    (open_directory / "directory").mkdir()
    own(open_directory / "directory").chmod(0o555)
    for name in ("file", "directory/new"):
        draft = opened_draft(bytes(open_directory / name))
        with pytest.raises(PermissionError):
            unprivileged(draft.__enter__)


def test_a_directory_made_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    """The draft is lost, and leaves nothing."""
    with pytest.raises(InvalidRequest):
        commit(tmp_path / "file", *BLOCKS, meanwhile=(tmp_path / "file").mkdir)
    assert os.listdir(tmp_path) == ["file"] and os.listdir(tmp_path / "file") == []


def test_a_directory_removed_meanwhile_is_an_error(tmp_path: Path) -> None:
    """There is no place left."""
    (tmp_path / "directory").mkdir()
    with pytest.raises(OSError) as caught:
        commit(tmp_path / "directory/file", *BLOCKS, meanwhile=(tmp_path / "directory").rmdir)
    assert caught.value.errno == errno.ENOENT
    assert os.listdir(tmp_path) == []


# ---- copied, since it can't have the name --------------------------------------------------------------------------


def test_a_draft_of_another_file_system_is_copied(tmp_path: Path, other_file_system: Path) -> None:
    """A link that was changed meanwhile leads there. Holes stay holes, however long."""
    link, target = tmp_path / "link", other_file_system / "file"
    link.symlink_to("here")

    def turn() -> None:
        link.unlink()
        link.symlink_to(target)

    inode = in_time(lambda: commit(link, *BLOCKS, (TIB, b"far"), meanwhile=turn))
    found = target.stat()
    assert (found.st_size, found.st_ino == inode) == (TIB + 3, False)
    assert found.st_blocks * 512 < 10 * KIB * KIB
    with open(target, "rb") as file:
        assert file.read(len(WHOLE)) == WHOLE
        file.seek(TIB - 2)
        assert file.read() == b"\0\0far"
    assert os.listdir(other_file_system) == ["file"] and os.listdir(tmp_path) == ["link"]


@pytest.mark.parametrize("size", [0, 3, 150 * KIB, 300 * KIB, 2000 * KIB])
def test_a_file_that_is_a_mount_point_is_written_in_place(tmp_path: Path, size: int) -> None:
    """When the draft is complete; zeros take the place of what the holes meet, and a longer content is cut."""
    (tmp_path / "source").write_bytes(b"x" * size)
    (tmp_path / "mount").touch()

    def look() -> None:
        assert (tmp_path / "mount").read_bytes() == b"x" * size

    with_bind_mount(
        tmp_path / "source", tmp_path / "mount", lambda: commit(tmp_path / "mount", *BLOCKS, meanwhile=look)
    )
    assert (tmp_path / "source").read_bytes() == WHOLE
    assert sorted(os.listdir(tmp_path)) == ["mount", "source"]


def test_in_a_protected_directory_a_file_is_written_in_place(open_directory: Path) -> None:
    """Its own mode allows that, and it stays the same file."""
    (open_directory / "file").write_bytes(b"the old content")
    own(open_directory / "file").chmod(0o644)
    own(open_directory).chmod(0o555)
    inode = (open_directory / "file").stat().st_ino
    unprivileged(lambda: commit(open_directory / "file", *BLOCKS))
    assert (open_directory / "file").read_bytes() == WHOLE
    assert (open_directory / "file").stat().st_ino == inode
    open_directory.chmod(0o755)


@as_root
def test_a_file_of_another_owner_is_written_in_place(open_directory: Path) -> None:
    """A new one would be ours."""
    (open_directory / "file").write_bytes(b"the old content")
    (open_directory / "file").chmod(0o666)
    unprivileged(lambda: commit(open_directory / "file", *BLOCKS))
    assert (open_directory / "file").read_bytes() == WHOLE
    assert (open_directory / "file").stat().st_uid == 0
    assert os.listdir(open_directory) == ["file"]


def test_a_device_is_written_in_place(tmp_path: Path) -> None:
    """With its first byte only when all is there; a hole of a tebibyte takes no time."""
    (tmp_path / "null").symlink_to("/dev/null")
    in_time(lambda: commit(tmp_path / "null", *BLOCKS, (TIB, b"far")))
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(OSError) as caught:
        commit("/dev/full", (0, b"x"))
    assert caught.value.errno == errno.ENOSPC


def test_the_draft_of_a_device_lies_with_other_temporary_files() -> None:
    """Since it never gets a name beside it, and what is beside it may be in memory."""
    with opened_draft(b"/dev/null") as draft, tempfile.TemporaryFile() as other:
        assert os.fstat(draft).st_dev == os.fstat(other.fileno()).st_dev


def test_a_file_of_proc_is_written_in_place() -> None:
    """No file can be made beside it."""
    path = Path("/proc/self/coredump_filter")
    before = path.read_text()
    commit(path, (2, b"31"), (0, b"0x"), meanwhile=lambda: path.read_text() == before or pytest.fail("too early"))
    assert int(path.read_text(), 16) == 0x31
    commit(path, (0, b"0x" + before.encode()))


def test_where_the_file_system_has_no_drafts_the_commit_tells_what_is_wrong() -> None:
    """That of terminals has neither drafts nor new files."""
    if not os.path.ismount("/dev/pts"):
        pytest.skip("no file system of terminals")
    with opened_draft(b"/dev/pts/new") as draft:
        os.write(draft, b"x")
        with pytest.raises(OSError):
            write_through(b"/dev/pts/new", draft_content(draft))
