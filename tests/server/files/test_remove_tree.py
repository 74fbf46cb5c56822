"""Removing: files, links, directories, trees; never more than what was named."""

from __future__ import annotations

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from deep_paths import long_path
from descriptors import open_descriptors
from own_thread import NOBODY, unprivileged, with_bind_mount

from execsrv.errors import InvalidRequest
from execsrv.server.files.remove_tree import remove


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """``tree`` with files and directories, and links to ``outside``, which has a file."""
    (tmp_path / "tree/a/b").mkdir(parents=True)
    (tmp_path / "tree/empty").mkdir()
    (tmp_path / "outside").mkdir()
    for name in ("tree/f", "tree/a/f", "tree/a/b/f", "outside/f"):
        (tmp_path / name).touch()
    (tmp_path / "tree/link").symlink_to(tmp_path / "outside")
    (tmp_path / "tree/a/link").symlink_to(tmp_path / "outside/f")
    os.mkfifo(tmp_path / "tree/a/fifo")
    return tmp_path / "tree"


def outside_is_whole(tree: Path) -> bool:
    """Is the file still there that no removal of ``tree`` may touch?"""
    return (tree.parent / "outside/f").exists()


@pytest.mark.parametrize("name", ["tree", "tree/", "tree//"])
def test_a_tree_is_removed_with_all_in_it(tree: Path, name: str) -> None:
    """Links in it are removed and not followed."""
    remove(os.fsencode(f"{tree.parent}/{name}"), recursive=True)
    assert outside_is_whole(tree)
    assert not (tree / "a").exists()


@pytest.mark.parametrize("slash", ["", "/", "//"])
@pytest.mark.parametrize("recursive", [True, False])
def test_a_link_is_removed_and_not_followed(tree: Path, slash: str, recursive: bool) -> None:
    """With or without a slash at its end."""
    remove(bytes(tree / "link") + slash.encode(), recursive)
    assert not (tree / "link").is_symlink()
    assert outside_is_whole(tree)


def test_a_dangling_link_is_removed(tmp_path: Path) -> None:
    """What it leads to does not matter."""
    (tmp_path / "link").symlink_to("none")
    remove(bytes(tmp_path / "link/"), recursive=True)
    assert os.listdir(tmp_path) == []


def test_a_file_and_a_fifo_are_removed(tree: Path) -> None:
    """Whether or not recursion is asked for."""
    remove(bytes(tree / "f"), recursive=True)
    remove(bytes(tree / "a/fifo"), recursive=False)
    assert not (tree / "f").exists() and not (tree / "a/fifo").exists()


def test_a_file_with_a_slash_at_its_end_is_no_directory(tree: Path) -> None:
    """As the system's own calls have it."""
    with pytest.raises(NotADirectoryError):
        remove(bytes(tree / "f") + b"/", recursive=True)
    assert (tree / "f").exists()


def test_only_an_empty_directory_is_removed_without_recursion(tree: Path) -> None:
    """Another is left as it is."""
    remove(bytes(tree / "empty"), recursive=False)
    assert not (tree / "empty").exists()
    with pytest.raises(OSError) as caught:
        remove(bytes(tree / "a"), recursive=False)
    assert caught.value.errno == errno.ENOTEMPTY
    assert (tree / "a/b/f").exists()


def test_a_missing_path_is_an_os_error(tmp_path: Path) -> None:
    """The caller decides what that means."""
    for name in ("none", "none/none", "none/.."):
        with pytest.raises(FileNotFoundError):
            remove(bytes(tmp_path) + b"/" + name.encode(), recursive=True)


@pytest.mark.parametrize(
    "path", ["/", "//", "/.", "/..", "/./", "/tmp/..", "/tmp/../", "/tmp/../.", "/proc/self/root/.", "/" * 5000]
)
@pytest.mark.parametrize("recursive", [True, False])
def test_the_root_is_refused(path: str, recursive: bool) -> None:
    """By whatever name. As nobody, in case it is not."""
    with pytest.raises(InvalidRequest) as caught:
        unprivileged(lambda: remove(os.fsencode(path), recursive))
    assert caught.value.kind == "invalidInput"
    assert "root" in caught.value.message


def test_the_root_under_another_name_is_refused(tmp_path: Path) -> None:
    """A bind mount of it would take the whole system along."""
    with pytest.raises(InvalidRequest):
        with_bind_mount(Path("/"), tmp_path, lambda: remove(bytes(tmp_path), recursive=False))


@pytest.mark.parametrize("name", [".", "..", "a/.", "a/b/..", "./", "link/."])
def test_dots_at_the_end_are_refused(tree: Path, name: str) -> None:
    """rmdir(2) could not finish what recursion had begun."""
    with pytest.raises(InvalidRequest) as caught:
        remove(bytes(tree) + b"/" + name.encode(), recursive=True)
    assert caught.value.kind == "invalidInput"
    assert (tree / "a/b/f").exists() and outside_is_whole(tree)


def test_depth_is_no_limit(deep_tree: Path) -> None:
    """Deeper than Python recurses and than a path can tell; no descriptor is left."""
    before = open_descriptors()
    remove(bytes(deep_tree), recursive=True)
    assert not deep_tree.exists()
    assert open_descriptors() <= before


def test_a_path_above_the_system_limit_is_removed(long_tree: Path) -> None:
    """The end of it, not the whole."""
    remove(long_path(long_tree), recursive=True)
    with pytest.raises(FileNotFoundError):
        remove(long_path(long_tree), recursive=True)
    assert long_tree.exists()


def test_many_entries_are_removed(tmp_path: Path) -> None:
    """Directories side by side with files, names that are not UTF-8."""
    top = bytes(tmp_path / "top")
    os.mkdir(top)
    for number in range(500):
        os.mkdir(top + b"/\xff%d" % number)
        os.close(os.open(top + b"/\xff%d/f\xfe" % number, os.O_CREAT))
    remove(top, recursive=True)
    assert os.listdir(tmp_path) == []


def test_a_tree_being_removed_by_others_is_no_fault(tmp_path: Path) -> None:
    """Four at once leave nothing; only the top itself may be missing for all but one of them."""
    top, start = tmp_path / "top", threading.Barrier(4, timeout=30)

    def remove_top() -> bool:
        start.wait()
        try:
            remove(bytes(top), recursive=True)
        except FileNotFoundError:
            assert not top.exists()
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        for _ in range(20):
            for number in range(20):
                (top / f"{number}/a/b/c").mkdir(parents=True)
                (top / f"{number}/f").touch()
            removals = [threads.submit(remove_top) for _ in range(4)]
            assert any([removal.result(30) for removal in removals])
            assert not top.exists()


def test_a_fault_stops_the_removal(open_directory: Path) -> None:
    """What may not be removed is told, and stays."""
    (open_directory / "top/protected").mkdir(parents=True)
    (open_directory / "top/protected/f").touch()
    if os.geteuid() == 0:
        os.chown(open_directory / "top", NOBODY, NOBODY)
    (open_directory / "top/protected").chmod(0o555)
    with pytest.raises(PermissionError):
        unprivileged(lambda: remove(bytes(open_directory / "top"), recursive=True))
    assert (open_directory / "top/protected/f").exists()
    (open_directory / "top/protected").chmod(0o755)


def test_links_swapped_in_meanwhile_lead_nowhere(tree: Path) -> None:
    """While someone exchanges a directory and a link to the outside again and again, the outside stays."""
    outside, inside, swap = tree.parent / "outside", tree / "a", tree.parent / "swap"
    stop = threading.Event()

    def attack() -> None:
        while not stop.is_set():
            with suppress(OSError):  # the removal was faster
                inside.mkdir(exist_ok=True)
                (inside / "g").touch()
                inside.rename(swap)
                inside.symlink_to(outside)
                inside.unlink()
                swap.rename(inside)

    attacker = threading.Thread(target=attack, daemon=True)
    attacker.start()
    for _ in range(300):
        with suppress(OSError):  # it met the swap
            tree.mkdir(exist_ok=True)
            remove(bytes(tree), recursive=True)
    stop.set()
    attacker.join(30)
    assert outside_is_whole(tree)
