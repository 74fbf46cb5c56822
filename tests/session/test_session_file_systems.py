"""Tests of execsrv.session.local_file_system and execsrv.session.exec_server_file_system: they do the same.

What only one of them can do wrong is tested in a file of its own.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from workspaces import Workspace

from execsrv.session.environment import (
    CopyOptions,
    CreateDirectoryOptions,
    ExecutorFileSystem,
    ReadDirectoryEntry,
    RemoveOptions,
)

#: A name that is not UTF-8.
ODD_NAME = os.fsdecode(b"caf\xe9")

PARENTS = CreateDirectoryOptions(recursive=True)
WITH_CONTENT = RemoveOptions(recursive=True)
TREE = CopyOptions(recursive=True)

Call: TypeAlias = Callable[..., object]


@pytest.fixture
def fs(file_system: ExecutorFileSystem) -> ExecutorFileSystem:
    """The files of each backend."""
    return file_system


@pytest.fixture
def place(workspace: Workspace) -> Path:
    """A workspace with a thing of each kind, as the test sees it."""
    place = workspace.place
    (place / "file").write_bytes(b"content")
    (place / "full" / "sub").mkdir(parents=True)
    (place / "full" / "sub" / "leaf").write_bytes(b"leaf")
    (place / "empty").mkdir()
    for name, target in {"link": "file", "broken": "nowhere", "loop": "loop", "door": "full"}.items():
        (place / name).symlink_to(target)
    os.mkfifo(place / "fifo")
    return place


def test_content_goes_there_and_back(fs: ExecutorFileSystem, workspace: Workspace) -> None:
    """Whatever bytes, and whatever was there; nothing else appears."""
    for contents in (bytes(range(256)) * 1000, b"", b"shorter"):
        fs.write_file(workspace.path("file"), contents)
        assert (workspace.place / "file").read_bytes() == contents
        assert fs.read_file(workspace.path("file")) == contents
    assert os.listdir(workspace.place) == ["file"]


def test_a_name_that_is_not_utf8_leads_to_its_file(fs: ExecutorFileSystem, workspace: Workspace) -> None:
    """As ``os`` has it, to be read, written, listed and removed."""
    fs.write_file(workspace.path(ODD_NAME), b"x")
    assert os.listdir(workspace.place) == [ODD_NAME]
    assert [entry.file_name for entry in fs.read_directory(str(workspace.root))] == [ODD_NAME]
    assert fs.read_file(workspace.path(ODD_NAME)) == b"x"
    fs.remove(workspace.path(ODD_NAME))
    assert os.listdir(workspace.place) == []


def test_links_are_read_and_written_through(fs: ExecutorFileSystem, place: Path, workspace: Workspace) -> None:
    """Also one to a file that is not there yet."""
    assert fs.read_file(workspace.path("link")) == b"content"
    fs.write_file(workspace.path("link"), b"new")
    fs.write_file(workspace.path("broken"), b"found")
    assert (place / "link").is_symlink() and (place / "broken").is_symlink()
    assert ((place / "file").read_bytes(), (place / "nowhere").read_bytes()) == (b"new", b"found")


def test_readers_see_the_old_file_or_the_new(fs: ExecutorFileSystem, place: Path, workspace: Workspace) -> None:
    """Who has the old one open keeps it."""
    with open(place / "file", "rb") as reader:
        fs.write_file(workspace.path("file"), b"new")
        assert reader.read() == b"content"


def test_a_written_file_keeps_its_mode_and_owner(fs: ExecutorFileSystem, place: Path, workspace: Workspace) -> None:
    """A new one gets what the system gives to new files."""
    (place / "file").chmod(0o640)
    if os.geteuid() == 0:
        os.chown(place / "file", 4711, 4712)
    before = (place / "file").stat()
    fs.write_file(workspace.path("file"), b"new")
    after = (place / "file").stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    fs.write_file(workspace.path("new"), b"")
    (place / "usual").touch()
    assert (place / "new").stat().st_mode == (place / "usual").stat().st_mode


def test_a_device_is_written_in_place(fs: ExecutorFileSystem) -> None:
    """It stays one."""
    fs.write_file("/dev/null", b"x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_directories_are_made(fs: ExecutorFileSystem, place: Path, workspace: Workspace) -> None:
    """One, or with all above it, and then it may be there already."""
    fs.create_directory(workspace.path("new"))
    fs.create_directory(workspace.path("a", "b", "c"), PARENTS)
    for existing in ("a/b/c", "a", "door"):
        fs.create_directory(workspace.path(existing), PARENTS)
    assert (place / "new").is_dir() and (place / "a" / "b" / "c").is_dir()


@pytest.mark.parametrize(
    "name, is_directory, is_file",
    [
        ("file", False, True),
        ("link", False, True),
        ("full", True, False),
        ("door", True, False),
        ("fifo", False, False),
    ],
)
def test_metadata_follow_links(
    name: str, is_directory: bool, is_file: bool, fs: ExecutorFileSystem, place: Path, workspace: Workspace
) -> None:
    """They tell kind and times of what a path leads to."""
    metadata = fs.get_metadata(workspace.path(name))
    assert (metadata.is_directory, metadata.is_file) == (is_directory, is_file)
    assert metadata.modified_at_ms == (place / name).stat().st_mtime_ns // 1_000_000
    assert metadata.created_at_ms >= 0


def test_a_time_before_1970_is_not_known(fs: ExecutorFileSystem, place: Path, workspace: Workspace) -> None:
    """It is told as 0."""
    os.utime(place / "file", (-5, -5))
    assert fs.get_metadata(workspace.path("file")).modified_at_ms == 0


def test_a_directory_tells_what_is_in_it(fs: ExecutorFileSystem, place: Path, workspace: Workspace) -> None:
    """Links are told as links, and kinds that have no name of their own as none of the three."""
    entries = {entry.file_name: entry for entry in fs.read_directory(str(workspace.root))}
    link = {name: ReadDirectoryEntry(name, False, False, True) for name in ("link", "broken", "loop", "door")}
    assert entries == link | {
        "file": ReadDirectoryEntry("file", False, True, False),
        "full": ReadDirectoryEntry("full", True, False, False),
        "empty": ReadDirectoryEntry("empty", True, False, False),
        "fifo": ReadDirectoryEntry("fifo", False, False, False),
    }
    assert fs.read_directory(workspace.path("empty")) == []
    assert [entry.file_name for entry in fs.read_directory(workspace.path("door"))] == ["sub"]


@pytest.mark.parametrize(
    "name", ["file", "link", "link/", "broken", "loop", "door", "door/", "fifo", "empty", "empty/"]
)
def test_one_thing_is_removed(name: str, fs: ExecutorFileSystem, place: Path, workspace: Workspace) -> None:
    """Never what a link leads to, even when recursive, and whatever else there is."""
    before = set(os.listdir(place))
    fs.remove(f"{workspace.root}/{name}", WITH_CONTENT if "link" in name or "door" in name else RemoveOptions())
    assert set(os.listdir(place)) == before - {name.rstrip("/")}
    assert (place / "full" / "sub" / "leaf").exists()


def test_a_tree_is_removed_on_demand(fs: ExecutorFileSystem, place: Path, workspace: Workspace) -> None:
    """But not what links in it lead to."""
    (place / "full" / "up").symlink_to(place / "file")
    (place / "full" / "across").symlink_to(place / "empty")
    fs.remove(workspace.path("full"), WITH_CONTENT)
    assert not (place / "full").exists()
    assert (place / "file").exists() and (place / "empty").exists()


@pytest.mark.parametrize("name", ["missing", "missing/below"])
def test_what_is_not_there_counts_as_removed(name: str, fs: ExecutorFileSystem, workspace: Workspace) -> None:
    """On demand."""
    fs.remove(workspace.path(name), RemoveOptions(force=True))


def test_a_file_is_copied(fs: ExecutorFileSystem, place: Path, workspace: Workspace) -> None:
    """With its mode, to a new name, over another file, and through a link."""
    (place / "file").chmod(0o751)
    (place / "target").write_bytes(b"a long old content")
    (place / "there").symlink_to("target")
    for name in ("new", "there"):
        fs.copy(workspace.path("file"), workspace.path(name))
        assert (place / name).read_bytes() == b"content"
        assert stat.S_IMODE((place / name).stat().st_mode) == 0o751
    assert (place / "there").is_symlink()


def test_a_file_copied_onto_itself_stays(fs: ExecutorFileSystem, place: Path, workspace: Workspace) -> None:
    """By whatever name."""
    os.link(place / "file", place / "hard")
    for name in ("file", "link", "hard"):
        fs.copy(workspace.path("file"), workspace.path(name))
        assert (place / "file").read_bytes() == b"content"
    assert (place / "file").stat().st_nlink == 2


def test_a_link_is_copied_as_a_link(fs: ExecutorFileSystem, place: Path, workspace: Workspace) -> None:
    """To a new name, over another link and over a file."""
    (place / "other").write_bytes(b"")
    for name in ("new", "loop", "other"):
        fs.copy(workspace.path("broken"), workspace.path(name))
        assert os.readlink(place / name) == "nowhere"


def test_a_tree_is_copied(fs: ExecutorFileSystem, place: Path, workspace: Workspace) -> None:
    """With modes, links and empty directories; names that are not UTF-8 too."""
    (place / "full" / "bare").mkdir(mode=0o700)
    (place / "full" / "up").symlink_to("../file")
    (place / "full" / "sub" / ODD_NAME).write_bytes(b"odd")
    (place / "full" / "sub").chmod(0o555)
    fs.copy(workspace.path("full"), workspace.path("copy"), TREE)
    assert sorted(os.listdir(place / "copy")) == ["bare", "sub", "up"]
    assert (place / "copy" / "sub" / "leaf").read_bytes() == b"leaf"
    assert (place / "copy" / "sub" / ODD_NAME).read_bytes() == b"odd"
    assert os.readlink(place / "copy" / "up") == "../file"
    assert [stat.S_IMODE((place / "copy" / name).stat().st_mode) for name in ("sub", "bare")] == [0o555, 0o700]


@pytest.mark.parametrize("target", ["copy", "way"])
def test_a_tree_is_merged_into_one_that_is_there(
    target: str, fs: ExecutorFileSystem, place: Path, workspace: Workspace
) -> None:
    """Or into where a link leads: files are replaced, others stay, and so does the directory's mode."""
    (place / "copy" / "sub").mkdir(parents=True)
    (place / "copy").chmod(0o750)
    (place / "copy" / "other").write_bytes(b"other")
    (place / "outside").write_bytes(b"outside")
    (place / "copy" / "sub" / "leaf").symlink_to(place / "outside")
    (place / "way").symlink_to("copy")
    fs.copy(workspace.path("full"), workspace.path(target), TREE)
    assert sorted(os.listdir(place / "copy")) == ["other", "sub"]
    assert (place / "copy" / "sub" / "leaf").read_bytes() == b"leaf"
    assert (place / "outside").read_bytes() == b"outside"
    assert stat.S_IMODE((place / "copy").stat().st_mode) == 0o750


CALLS: dict[str, Call] = {
    "read_file": lambda fs, path: fs.read_file(path),
    "write_file": lambda fs, path: fs.write_file(path, b"x"),
    "get_metadata": lambda fs, path: fs.get_metadata(path),
    "read_directory": lambda fs, path: fs.read_directory(path),
    "create_directory": lambda fs, path: fs.create_directory(path),
    "create_directory with parents": lambda fs, path: fs.create_directory(path, PARENTS),
    "remove": lambda fs, path: fs.remove(path),
    "remove with content": lambda fs, path: fs.remove(path, WITH_CONTENT),
    "force": lambda fs, path: fs.remove(path, RemoveOptions(force=True)),
    "copy": lambda fs, *paths: fs.copy(*paths),
    "copy tree": lambda fs, *paths: fs.copy(*paths, TREE),
}

#: Calls, the names that they are called with, and the error that this is.
REFUSALS = [
    ("read_file", "missing", errno.ENOENT),
    ("read_file", "missing/below", errno.ENOENT),
    ("read_file", "broken", errno.ENOENT),
    ("read_file", "file/below", errno.ENOTDIR),
    ("read_file", "file/", errno.ENOTDIR),
    ("read_file", "full", errno.EISDIR),
    ("read_file", "door", errno.EISDIR),
    ("read_file", "fifo", errno.EINVAL),
    ("read_file", "loop", errno.ELOOP),
    ("read_file", "n" * 256, errno.ENAMETOOLONG),
    ("write_file", "missing/below", errno.ENOENT),
    ("write_file", "missing/", errno.ENOENT),
    ("write_file", "file/below", errno.ENOTDIR),
    ("write_file", "file/", errno.ENOTDIR),
    ("write_file", "full", errno.EISDIR),
    ("write_file", "door", errno.EISDIR),
    ("write_file", "fifo", errno.EINVAL),
    ("write_file", "loop", errno.ELOOP),
    ("get_metadata", "missing", errno.ENOENT),
    ("get_metadata", "broken", errno.ENOENT),
    ("get_metadata", "file/below", errno.ENOTDIR),
    ("get_metadata", "loop", errno.ELOOP),
    ("read_directory", "missing", errno.ENOENT),
    ("read_directory", "file", errno.ENOTDIR),
    ("read_directory", "link", errno.ENOTDIR),
    ("read_directory", "fifo", errno.ENOTDIR),
    ("create_directory", "full", errno.EEXIST),
    ("create_directory", "file", errno.EEXIST),
    ("create_directory", "broken", errno.EEXIST),
    ("create_directory", "missing/below", errno.ENOENT),
    ("create_directory", "file/below", errno.ENOTDIR),
    ("create_directory with parents", "file", errno.ENOTDIR),
    ("create_directory with parents", "link", errno.ENOTDIR),
    ("create_directory with parents", "fifo/below", errno.ENOTDIR),
    ("create_directory with parents", "broken", errno.ENOENT),
    ("create_directory with parents", "broken/below", errno.ENOENT),
    ("remove", "missing", errno.ENOENT),
    ("remove", "full", errno.ENOTEMPTY),
    ("remove", "file/below", errno.ENOTDIR),
    ("remove", "file/", errno.ENOTDIR),
    ("remove with content", "full/sub/..", errno.EINVAL),
    ("remove with content", "empty/.", errno.EINVAL),
    ("force", "full", errno.ENOTEMPTY),
    ("force", "file/below", errno.ENOTDIR),
    ("copy", "missing new", errno.ENOENT),
    ("copy", "file missing/below", errno.ENOENT),
    ("copy", "file full", errno.EISDIR),
    ("copy", "file fifo", errno.EINVAL),
    ("copy", "fifo new", errno.EINVAL),
    ("copy", "full new", errno.EINVAL),
    ("copy", "link full", errno.EISDIR),
    ("copy", "link fifo", errno.EINVAL),
    ("copy", "link file", errno.EINVAL),
    ("copy tree", "full full", errno.EINVAL),
    ("copy tree", "full full/sub/new", errno.EINVAL),
    ("copy tree", "full door/new", errno.EINVAL),
    ("copy tree", "full file", errno.ENOTDIR),
    ("copy tree", "full broken", errno.ENOENT),
    ("copy tree", "full missing/below", errno.ENOENT),
]


@pytest.mark.parametrize("call, given, number", REFUSALS)
def test_a_refusal_is_the_same_everywhere(
    call: str, given: str, number: int, fs: ExecutorFileSystem, place: Path, workspace: Workspace
) -> None:
    """In kind, words and paths, which are those of the session; nothing is changed by it."""
    paths = [f"{workspace.root}/{name}" for name in given.split()]
    before = sorted(os.walk(place))
    with pytest.raises(OSError) as caught:
        CALLS[call](fs, *paths)
    expected = OSError(number, os.strerror(number), paths[0], None, *paths[1:])
    assert (type(caught.value), str(caught.value)) == (type(expected), str(expected))
    assert sorted(os.walk(place)) == before
    assert (place / "file").read_bytes() == b"content"


def test_below_the_top_a_tree_does_not_follow_links(
    fs: ExecutorFileSystem, place: Path, workspace: Workspace
) -> None:
    """A directory can't take the place of one."""
    (place / "copy").mkdir()
    (place / "copy" / "sub").symlink_to(place / "empty")
    with pytest.raises(NotADirectoryError):
        fs.copy(workspace.path("full"), workspace.path("copy"), TREE)
    assert os.listdir(place / "empty") == []


def test_the_root_directory_is_not_removed(fs: ExecutorFileSystem) -> None:
    """Whatever it is called."""
    for name in ("/", "//", "/proc/.."):
        with pytest.raises(OSError) as caught:
            fs.remove(name, RemoveOptions(force=True))
        assert caught.value.errno == errno.EINVAL


@pytest.mark.parametrize("path", ["", "file", "file:///file", "/nul\0", "/\ud800"])
def test_what_is_no_path_is_a_value_error(path: str, fs: ExecutorFileSystem) -> None:
    """A relative one too: nobody says to what."""
    for name, call in CALLS.items():
        for paths in [(path, "/tmp"), ("/tmp", path)] if "copy" in name else [(path,)]:
            with pytest.raises(ValueError):
                call(fs, *paths)
