"""Places: files by paths of any length, and the making of directories."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
from deep_paths import LONG_NAMES, deep_path, long_path
from descriptors import open_descriptors

from execsrv.server.files.places import LONGEST_PATH, READ_FLAGS, Place, make_directories, reach


def test_a_short_path_is_its_own_place(tmp_path: Path) -> None:
    """The system takes it as it is; nothing is opened."""
    before = open_descriptors()
    with reach(bytes(tmp_path)) as place:
        assert place == Place(None, bytes(tmp_path))
        assert open_descriptors() <= before


def test_a_long_path_is_reached(long_tree: Path) -> None:
    """A path above PATH_MAX is a short one from its parent on, which is closed afterwards."""
    before = open_descriptors()
    with reach(long_path(long_tree) + b"/leaf") as place, place.opened(READ_FLAGS) as fd:
        assert place.path == b"leaf"
        assert os.read(fd, 100) == b"deep"
    assert open_descriptors() <= before


def test_a_long_path_keeps_its_trailing_slash(long_tree: Path) -> None:
    """The slash tells a directory from a link to one, in long paths too."""
    path = long_path(long_tree)
    with reach(path) as place:
        assert place.path == LONG_NAMES[-1].encode()
    with reach(path + b"///") as place:
        assert place.path == LONG_NAMES[-1].encode() + b"/"


def test_a_path_of_slashes_is_the_root() -> None:
    """However many they are."""
    with reach(b"/" * (LONGEST_PATH + 1)) as place:
        assert os.path.samestat(place.stat(), os.stat("/"))


def test_a_long_path_without_parent_is_not_found(long_tree: Path) -> None:
    """The walk to the parent fails as the system's own would, and leaves nothing open."""
    before = open_descriptors()
    with pytest.raises(FileNotFoundError):
        with reach(long_path(long_tree) + b"/none/leaf"):
            pass
    assert open_descriptors() <= before


def test_stat_follows_or_not(tmp_path: Path) -> None:
    """Of a link, or of what it leads to; None for nothing, an error for anything else."""
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    link = Place(None, bytes(tmp_path / "link"))
    assert link.stat().st_size == 5
    assert link.stat(follow=False).st_size == 4
    assert Place(None, bytes(tmp_path / "none")).stat_or_none() is None
    with pytest.raises(NotADirectoryError):
        Place(None, bytes(tmp_path / "file/none")).stat_or_none()


def test_a_sibling_is_in_the_same_directory() -> None:
    """Of an absolute place and of one from a descriptor on."""
    assert Place(None, b"/a/b").sibling(b"c") == Place(None, b"/a/c")
    assert Place(7, b"b").sibling(b"c") == Place(7, b"c")


def test_a_descriptor_is_closed_after_its_block(tmp_path: Path) -> None:
    """Also when the block raises."""
    before = open_descriptors()
    with pytest.raises(ZeroDivisionError), Place(None, bytes(tmp_path)).opened(READ_FLAGS) as fd:
        assert os.fstat(fd)
        1 / 0
    assert open_descriptors() <= before


def test_directories_are_made_down_to_any_depth(deep_directory: Path) -> None:
    """Those that are there are passed, those that are missing made, beyond PATH_MAX too."""
    before = open_descriptors()
    path = deep_path(deep_directory)
    make_directories(path)
    make_directories(path + b"/new")
    with reach(path) as place:
        assert stat.S_ISDIR(place.stat().st_mode)
    assert open_descriptors() <= before


def test_making_what_is_there_is_no_fault(tmp_path: Path) -> None:
    """Existing directories, links to directories, and the root."""
    (tmp_path / "link").symlink_to(tmp_path)
    for path in (bytes(tmp_path), bytes(tmp_path / "link"), b"/", bytes(tmp_path) + b"/./"):
        make_directories(path)
    make_directories(bytes(tmp_path / "link/new"))
    assert (tmp_path / "new").is_dir()


@pytest.mark.parametrize("name, number", [("file", errno.ENOTDIR), ("file/a", errno.ENOTDIR), ("loop", errno.ELOOP)])
def test_no_directory_is_made_over_or_below_a_file(tmp_path: Path, name: str, number: int) -> None:
    """The system's error comes through."""
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError) as caught:
        make_directories(bytes(tmp_path / name))
    assert caught.value.errno == number
