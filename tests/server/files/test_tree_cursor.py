"""The cursor: down by name, up again, and never out of the tree."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from deep_paths import LONG_NAMES
from descriptors import open_descriptors

from execsrv.server.files.places import Place
from execsrv.server.files.tree_cursor import TreeCursor


@pytest.fixture
def cursor(tmp_path: Path) -> Iterator[TreeCursor]:
    """A cursor at the top of ``tree``, which has directories ``a/b`` and a file ``f``, next to ``outside``."""
    (tmp_path / "tree/a/b").mkdir(parents=True)
    (tmp_path / "tree/f").touch()
    (tmp_path / "tree/link").symlink_to(tmp_path / "outside")
    (tmp_path / "outside").mkdir()
    with closing(TreeCursor(Place(None, bytes(tmp_path / "tree")))) as cursor:
        yield cursor


def is_at(cursor: TreeCursor, path: Path) -> bool:
    """Is that the directory the cursor has open?"""
    return os.path.samestat(os.fstat(cursor.fd), path.stat())


def test_it_lists_names_and_tells_directories(cursor: TreeCursor) -> None:
    """A link to a directory is none; names are bytes."""
    os.mkdir(b"\xff", dir_fd=cursor.fd)
    assert sorted(cursor.entries()) == [(b"a", True), (b"f", False), (b"link", False), (b"\xff", True)]


def test_it_moves_down_and_up(cursor: TreeCursor, tmp_path: Path) -> None:
    """Leaving tells the name that was left."""
    cursor.enter(b"a")
    cursor.enter(b"b")
    assert is_at(cursor, tmp_path / "tree/a/b")
    assert cursor.leave() == b"b"
    assert cursor.leave() == b"a"
    assert is_at(cursor, tmp_path / "tree")


@pytest.mark.parametrize("name, fault", [(b"link", NotADirectoryError), (b"f", NotADirectoryError), (b"x", OSError)])
def test_what_is_no_directory_is_not_entered(
    cursor: TreeCursor, tmp_path: Path, name: bytes, fault: type[OSError]
) -> None:
    """A link, a file, a missing name: the cursor stays where it is."""
    with pytest.raises(fault):
        cursor.enter(name)
    assert is_at(cursor, tmp_path / "tree")


def test_a_directory_swapped_for_a_link_is_not_entered(cursor: TreeCursor, tmp_path: Path) -> None:
    """What was listed as a directory may be a link when its turn comes."""
    assert (b"a", True) in cursor.entries()
    (tmp_path / "tree/a").rename(tmp_path / "a")
    (tmp_path / "tree/a").symlink_to(tmp_path / "outside")
    with pytest.raises(NotADirectoryError):
        cursor.enter(b"a")


def test_a_directory_moved_elsewhere_is_not_left(cursor: TreeCursor, tmp_path: Path) -> None:
    """Its parent is a stranger now; the cursor does not go there."""
    cursor.enter(b"a")
    (tmp_path / "tree/a").rename(tmp_path / "outside/a")
    with pytest.raises(OSError) as caught:
        cursor.leave()
    assert caught.value.errno == errno.ESTALE
    assert is_at(cursor, tmp_path / "outside/a")


def test_a_removed_directory_is_empty_and_can_be_left(cursor: TreeCursor, tmp_path: Path) -> None:
    """Somebody else may be removing the same tree."""
    cursor.enter(b"a")
    cursor.enter(b"b")
    (tmp_path / "tree/a/b").rmdir()
    assert cursor.entries() == []
    assert cursor.leave() == b"b"


def test_the_top_may_be_a_link_only_when_asked(tmp_path: Path) -> None:
    """The caller decides whether the first name is followed."""
    (tmp_path / "link").symlink_to(tmp_path)
    place = Place(None, bytes(tmp_path / "link"))
    with pytest.raises(NotADirectoryError):
        TreeCursor(place)
    with closing(TreeCursor(place, follow=True)) as cursor:
        assert is_at(cursor, tmp_path)


def test_depth_costs_no_descriptors(long_tree: Path) -> None:
    """One descriptor is open at the bottom as at the top, and none afterwards."""
    before = open_descriptors()
    with closing(TreeCursor(Place(None, bytes(long_tree)))) as cursor:
        for name in LONG_NAMES:
            cursor.enter(name.encode())
        assert cursor.entries() == [(b"leaf", False)]
        assert len(open_descriptors() - before) == 1
        for _ in LONG_NAMES:
            cursor.leave()
        assert is_at(cursor, long_tree)
    assert open_descriptors() <= before
