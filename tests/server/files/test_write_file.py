"""Writing a file: whole or not at all, through links, with mode and owner kept, in place only where it must be."""

from __future__ import annotations

import errno
import os
import resource
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from deep_paths import long_path
from own_thread import NOBODY, in_time, unprivileged, with_bind_mount

from execsrv.errors import InvalidRequest
from execsrv.server.files.places import Place, reach
from execsrv.server.files.read_directory import read_directory
from execsrv.server.files.write_file import Content, bytes_content, kept_mode, write_entry, write_through

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


def write(path: Path | str, data: bytes) -> None:
    """Write through ``path``."""
    write_through(os.fsencode(path), bytes_content(data))


def failing(error: BaseException) -> Content:
    """Content that breaks off in the middle."""

    def write_some(fd: int) -> None:
        os.write(fd, b"half")
        raise error

    return Content(write_some)


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """A write beyond ``size`` bytes fails with EFBIG (Python ignores SIGXFSZ)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [0, 1, 3_000_000])
def test_the_content_replaces_the_old_one(tmp_path: Path, size: int) -> None:
    """A new file and a longer old one come out the same, and nothing else is left in the directory."""
    data = os.urandom(size)
    (tmp_path / "old").write_bytes(b"x" * 4_000_000)
    for name in ("old", "new"):
        write(tmp_path / name, data)
        assert (tmp_path / name).read_bytes() == data
    assert sorted(os.listdir(tmp_path)) == ["new", "old"]


def test_a_reader_of_the_old_file_keeps_it(tmp_path: Path) -> None:
    """Who has it open sees the old content to the end."""
    (tmp_path / "file").write_bytes(b"old content")
    with open(tmp_path / "file", "rb") as reader:
        write(tmp_path / "file", b"new")
        assert reader.read() == b"old content"


def test_other_hard_links_keep_the_old_content(tmp_path: Path) -> None:
    """Only the path that is written gets the new file."""
    (tmp_path / "file").write_bytes(b"old")
    os.link(tmp_path / "file", tmp_path / "other")
    write(tmp_path / "file", b"new")
    assert (tmp_path / "other").read_bytes() == b"old"


@pytest.mark.parametrize("fault", [OSError(errno.EIO, "bad"), PermissionError(errno.EACCES, "no"), KeyboardInterrupt()])
def test_a_fault_leaves_the_old_file_and_nothing_else(tmp_path: Path, fault: BaseException) -> None:
    """Whatever breaks the content off, it is never written in place instead."""
    (tmp_path / "old").write_bytes(b"old")
    for name in ("old", "new"):
        with pytest.raises(type(fault)):
            write_through(bytes(tmp_path / name), failing(fault))
    assert os.listdir(tmp_path) == ["old"]
    assert (tmp_path / "old").read_bytes() == b"old"


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    """Half of the content fits, and none of it is seen."""
    (tmp_path / "file").write_bytes(b"old")
    with largest_file(1000), pytest.raises(OSError) as caught:
        write(tmp_path / "file", b"x" * 2000)
    assert caught.value.errno == errno.EFBIG
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o4755, 0o666])
def test_the_mode_of_an_existing_file_stays(tmp_path: Path, mode: int) -> None:
    """Set-ID bits too, as long as the owner stays."""
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "file").chmod(mode)
    write(tmp_path / "file", b"new")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_new_file_gets_the_mode_that_the_umask_leaves(tmp_path: Path, umask: int) -> None:
    """0666 less the umask, as any program would make it."""
    code = (
        "import os, sys; from execsrv.server.files.write_file import bytes_content, write_through\n"
        "os.umask(int(sys.argv[2])); write_through(os.fsencode(sys.argv[1]), bytes_content(b'x'))"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "file", str(umask)], check=True, timeout=60)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~umask


@as_root
def test_the_owner_of_an_existing_file_stays(tmp_path: Path) -> None:
    """User and group."""
    (tmp_path / "file").write_bytes(b"old")
    os.chown(tmp_path / "file", NOBODY, 12345)
    (tmp_path / "file").chmod(0o4711)
    inode = (tmp_path / "file").stat().st_ino
    write(tmp_path / "file", b"new")
    found = (tmp_path / "file").stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (NOBODY, 12345, 0o4711)
    assert found.st_ino != inode, "it was written in place"


def test_a_link_is_written_through(tmp_path: Path) -> None:
    """A chain of links, relative and absolute, stays; the file at its end is replaced."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a/file").write_bytes(b"old")
    (tmp_path / "a/link").symlink_to("../a/file")
    (tmp_path / "link").symlink_to(tmp_path / "a/link")
    with open(tmp_path / "link", "rb") as reader:
        write(tmp_path / "link", b"new")
        assert reader.read() == b"old"
    assert (tmp_path / "a/file").read_bytes() == b"new"
    assert (tmp_path / "link").is_symlink() and (tmp_path / "a/link").is_symlink()
    assert sorted(os.listdir(tmp_path / "a")) == ["file", "link"]


def test_a_dangling_link_is_written_through(tmp_path: Path) -> None:
    """The file appears where the last link points."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a/link").symlink_to("file")
    (tmp_path / "link").symlink_to("a/link")
    write(tmp_path / "link", b"new")
    assert (tmp_path / "a/file").read_bytes() == b"new"
    assert (tmp_path / "link").is_symlink() and (tmp_path / "a/link").is_symlink()


@pytest.mark.parametrize("target, number", [("none/file", errno.ENOENT), ("link", errno.ELOOP), ("f/x", errno.ENOTDIR)])
def test_a_link_that_can_lead_nowhere_is_an_error(tmp_path: Path, target: str, number: int) -> None:
    """A missing directory, a circle, a file in the way."""
    (tmp_path / "f").touch()
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(OSError) as caught:
        write(tmp_path / "link", b"new")
    assert caught.value.errno == number
    assert sorted(os.listdir(tmp_path)) == ["f", "link"]


def test_a_name_with_a_slash_at_its_end_is_no_file(tmp_path: Path) -> None:
    """Missing or a file, nothing is written."""
    (tmp_path / "file").write_bytes(b"old")
    for name in ("file/", "new/"):
        with pytest.raises(OSError):
            write(f"{tmp_path}/{name}", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def refusal(path: Path) -> InvalidRequest:
    """What writing to ``path`` is refused with, in time."""
    with pytest.raises(InvalidRequest) as caught:
        in_time(lambda: write(path, b"new"))
    return caught.value


def test_a_directory_is_refused(tmp_path: Path) -> None:
    """With or without slash, and through a link."""
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to("directory")
    for path in (tmp_path / "directory", tmp_path / "link"):
        assert refusal(path).kind == "isADirectory"
    assert os.listdir(tmp_path / "directory") == []


def test_fifos_and_sockets_are_refused_at_once(tmp_path: Path) -> None:
    """Nobody reads them, and nothing waits for that."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
    for name in ("fifo", "link", "socket"):
        assert refusal(tmp_path / name).kind == "invalidInput"
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)


def test_a_device_is_written_in_place(tmp_path: Path) -> None:
    """It stays a device; what it refuses is told."""
    (tmp_path / "null").symlink_to("/dev/null")
    write("/dev/null", b"gone")
    write(tmp_path / "null", b"gone")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(OSError) as caught:
        write("/dev/full", b"x")
    assert caught.value.errno == errno.ENOSPC


def test_a_device_that_takes_nothing_is_not_waited_for() -> None:
    """A terminal whose reader is away takes some and then refuses."""
    master, slave = os.openpty()
    with pytest.raises(BlockingIOError):
        in_time(lambda: write(os.ttyname(slave), b"x" * 1_000_000))
    os.close(master)
    os.close(slave)


def test_a_file_of_proc_is_written_in_place() -> None:
    """No file can be made beside it."""
    path = "/proc/self/coredump_filter"
    before = Path(path).read_text()
    write(path, b"0x31")
    assert int(Path(path).read_text(), 16) == 0x31
    write(path, b"0x" + before.encode())


def test_an_open_file_without_a_name_is_written_in_place(tmp_path: Path) -> None:
    """/proc's link to it tells a name that is not there."""
    with open(tmp_path / "file", "w+b") as file:
        os.unlink(tmp_path / "file")
        write(f"/proc/self/fd/{file.fileno()}", b"new")
        assert file.read() == b"new"
        assert os.listdir(tmp_path) == []
        (tmp_path / "file (deleted)").write_bytes(b"a stranger")
        write(f"/proc/self/fd/{file.fileno()}", b"newer")
    assert (tmp_path / "file (deleted)").read_bytes() == b"a stranger"


@pytest.mark.parametrize("data", [b"short", b"longer than the old one"])
def test_a_file_that_is_a_mount_point_is_written_in_place(tmp_path: Path, data: bytes) -> None:
    """rename(2) refuses to replace it; a longer old content is cut."""
    (tmp_path / "source").write_bytes(b"the old one")
    (tmp_path / "mount").touch()
    with_bind_mount(tmp_path / "source", tmp_path / "mount", lambda: write(tmp_path / "mount", data))
    assert (tmp_path / "source").read_bytes() == data
    assert sorted(os.listdir(tmp_path)) == ["mount", "source"]


def own(path: Path) -> Path:
    """Give ``path`` to the user of ``unprivileged``."""
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)
    return path


def test_in_a_protected_directory_a_file_is_written_in_place(open_directory: Path) -> None:
    """Its own mode allows that, and it stays the same file."""
    (open_directory / "file").write_bytes(b"the old content")
    own(open_directory / "file").chmod(0o644)
    own(open_directory).chmod(0o555)
    inode = (open_directory / "file").stat().st_ino
    unprivileged(lambda: write(open_directory / "file", b"new"))
    assert (open_directory / "file").read_bytes() == b"new"
    assert (open_directory / "file").stat().st_ino == inode
    with pytest.raises(OSError) as caught:
        unprivileged(lambda: write(open_directory / "none", b"new"))
    assert caught.value.errno == errno.EACCES
    open_directory.chmod(0o755)


def test_a_protected_file_is_not_replaced(open_directory: Path) -> None:
    """rename(2) would allow it; the file's own mode does not."""
    (open_directory / "file").write_bytes(b"old")
    own(open_directory / "file").chmod(0o444)
    with pytest.raises(PermissionError):
        unprivileged(lambda: write(open_directory / "file", b"new"))
    assert (open_directory / "file").read_bytes() == b"old"
    assert os.listdir(open_directory) == ["file"]


@as_root
def test_a_file_of_another_owner_is_written_in_place(open_directory: Path) -> None:
    """A new file would be ours."""
    (open_directory / "file").write_bytes(b"the old content")
    (open_directory / "file").chmod(0o666)
    unprivileged(lambda: write(open_directory / "file", b"new"))
    assert (open_directory / "file").read_bytes() == b"new"
    assert (open_directory / "file").stat().st_uid == 0
    assert os.listdir(open_directory) == ["file"]


def test_an_entry_that_is_a_link_is_replaced(tmp_path: Path) -> None:
    """The file it leads to stays untouched."""
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("file")
    write_entry(Place(None, bytes(tmp_path / "link")), bytes_content(b"new"))
    assert not (tmp_path / "link").is_symlink()
    assert ((tmp_path / "link").read_bytes(), (tmp_path / "file").read_bytes()) == (b"new", b"old")


def test_a_link_swapped_in_meanwhile_is_not_written_through(open_directory: Path) -> None:
    """When a file can't be replaced after all, only that very file is written in place."""
    victim, directory = open_directory / "victim", open_directory / "directory"
    directory.mkdir()
    for path in (victim, directory / "file"):
        path.write_bytes(b"old")
        own(path)
    own(directory)

    def swap(fd: int) -> None:
        os.write(fd, b"new")
        if directory.stat().st_mode & stat.S_IWUSR:
            (directory / "file").unlink()
            (directory / "file").symlink_to(victim)
            directory.chmod(0o555)

    with pytest.raises(OSError) as caught:
        unprivileged(lambda: write_entry(Place(None, bytes(directory / "file")), Content(swap)))
    assert caught.value.errno == errno.ESTALE
    assert victim.read_bytes() == b"old"
    directory.chmod(0o755)


def test_a_file_with_a_long_path_is_written(long_tree: Path) -> None:
    """Its path is longer than PATH_MAX, its directory is reached once."""
    path = long_path(long_tree) + b"/leaf"
    write_through(path, bytes_content(b"new"))
    with reach(path) as place:
        assert place.stat().st_size == 3
    assert [entry.file_name for entry in read_directory(os.path.dirname(path), 1000)] == ["leaf"]


def test_readers_see_the_old_or_the_new(tmp_path: Path) -> None:
    """Never a part, however often they look while it is written."""
    contents = [bytes([number]) * 100_000 for number in range(20)]
    path = tmp_path / "file"
    path.write_bytes(contents[0])
    done = threading.Event()

    def write_all() -> None:
        for content in contents:
            write(path, content)
        done.set()

    writer = threading.Thread(target=write_all, daemon=True)
    writer.start()
    while not done.is_set() and writer.is_alive():
        assert path.read_bytes() in contents
    writer.join(30)
    assert path.read_bytes() == contents[-1]


def fake_stat(mode: int, uid: int, gid: int) -> os.stat_result:
    """A file as far as ``kept_mode`` looks at it."""
    return os.stat_result((stat.S_IFREG | mode, 0, 0, 1, uid, gid, 0, 0, 0, 0))


@pytest.mark.parametrize(
    "uid, gid, mode", [(1, 1, 0o7755), (2, 1, 0o3755), (1, 2, 0o5755), (2, 2, 0o1755)]
)
def test_set_id_bits_are_kept_for_the_same_owner_only(uid: int, gid: int, mode: int) -> None:
    """A copy never runs with the rights of who did not make the original."""
    assert kept_mode(fake_stat(0o7755, 1, 1), fake_stat(0o600, uid, gid)) == mode
