"""Copying: files, links and trees, merged into what is there, never through links and never into themselves."""

from __future__ import annotations

import errno
import os
import resource
import socket
import stat
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from deep_paths import deep_path
from descriptors import open_descriptors
from own_thread import NOBODY, in_time, unprivileged, with_bind_mount

from execsrv.errors import InvalidRequest
from execsrv.server.files.copy_tree import COPY_CHUNK_BYTES, copy
from execsrv.server.files.places import reach

NEEDS_RECURSIVE = "fs/copy requires recursive: true when sourcePath is a directory"
INTO_ITSELF = "fs/copy cannot copy a directory to itself or one of its descendants"
SPECIAL = "fs/copy only supports regular files, directories, and symlinks"

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


def go_on() -> None:
    """A check that finds nothing."""


def copied(source: Path, destination: Path) -> None:
    """Copy with recursion, in time."""
    in_time(lambda: copy(bytes(source), bytes(destination), recursive=True, check=go_on))


def refusal(source: Path, destination: Path, recursive: bool = True) -> InvalidRequest:
    """What a copy is refused with, in time."""
    with pytest.raises(InvalidRequest) as caught:
        in_time(lambda: copy(bytes(source), bytes(destination), recursive, check=go_on))
    return caught.value


def mode_of(path: Path) -> int:
    """The permission bits of ``path``."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """``tree`` with files of several modes, directories and links."""
    tree = tmp_path / "tree"
    (tree / "a/b").mkdir(parents=True)
    (tree / "f").write_bytes(b"f")
    (tree / "f").chmod(0o640)
    (tree / "a/b/run").write_bytes(b"run")
    (tree / "a/b/run").chmod(0o755)
    (tree / "link").symlink_to("a/b/run")
    (tree / "a/dangling").symlink_to("/no/such/file")
    (tree / "a/up").symlink_to("..")
    return tree


@pytest.mark.parametrize("size", [0, 1, COPY_CHUNK_BYTES, 2 * COPY_CHUNK_BYTES + 1])
def test_a_file_is_copied_with_its_mode(tmp_path: Path, size: int) -> None:
    """The umask takes nothing from it; nothing else is left in the directory."""
    data = os.urandom(size)
    (tmp_path / "file").write_bytes(data)
    (tmp_path / "file").chmod(0o666)
    copied(tmp_path / "file", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == data
    assert mode_of(tmp_path / "copy") == 0o666
    assert sorted(os.listdir(tmp_path)) == ["copy", "file"]


def test_a_file_of_proc_is_copied(tmp_path: Path) -> None:
    """Though it tells no size."""
    copied(Path("/proc/self/limits"), tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == Path("/proc/self/limits").read_bytes()


def test_an_existing_file_is_replaced(tmp_path: Path) -> None:
    """With the mode of the source."""
    (tmp_path / "file").write_bytes(b"new")
    (tmp_path / "file").chmod(0o600)
    (tmp_path / "old").write_bytes(b"old and longer")
    copied(tmp_path / "file", tmp_path / "old")
    assert (tmp_path / "old").read_bytes() == b"new"
    assert mode_of(tmp_path / "old") == 0o600


@as_root
def test_set_id_bits_do_not_change_hands(tmp_path: Path) -> None:
    """Somebody's program copied by root would run as root."""
    (tmp_path / "file").touch()
    os.chown(tmp_path / "file", NOBODY, NOBODY)
    (tmp_path / "file").chmod(0o6755)
    copied(tmp_path / "file", tmp_path / "copy")
    assert mode_of(tmp_path / "copy") == 0o755


def test_a_fault_leaves_the_old_file(tmp_path: Path) -> None:
    """The copy arrives whole or not at all."""
    (tmp_path / "file").write_bytes(b"x" * 2000)
    (tmp_path / "old").write_bytes(b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        for name in ("old", "new"):
            with pytest.raises(OSError) as caught:
                copied(tmp_path / "file", tmp_path / name)
            assert caught.value.errno == errno.EFBIG
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sorted(os.listdir(tmp_path)) == ["file", "old"]
    assert (tmp_path / "old").read_bytes() == b"old"


@pytest.mark.parametrize("name", ["file", "hard-link", "link", "../{}/file"])
def test_a_file_copied_onto_itself_stays(tmp_path: Path, name: str) -> None:
    """By whatever name."""
    (tmp_path / "file").write_bytes(b"data")
    os.link(tmp_path / "file", tmp_path / "hard-link")
    (tmp_path / "link").symlink_to("file")
    copied(tmp_path / "file", tmp_path / name.format(tmp_path.name))
    assert (tmp_path / "file").read_bytes() == b"data"
    assert (tmp_path / "hard-link").samefile(tmp_path / "file")
    assert (tmp_path / "link").is_symlink()


def test_a_destination_that_is_a_link_is_written_through(tmp_path: Path) -> None:
    """As fs/writeFile does, for a link that leads nowhere yet too."""
    (tmp_path / "file").write_bytes(b"data")
    (tmp_path / "old").touch()
    (tmp_path / "link").symlink_to("old")
    (tmp_path / "dangling").symlink_to("new")
    copied(tmp_path / "file", tmp_path / "link")
    copied(tmp_path / "file", tmp_path / "dangling")
    assert (tmp_path / "old").read_bytes() == (tmp_path / "new").read_bytes() == b"data"
    assert (tmp_path / "link").is_symlink() and (tmp_path / "dangling").is_symlink()


def test_a_device_takes_a_file(tmp_path: Path) -> None:
    """It is written in place."""
    (tmp_path / "file").write_bytes(b"data")
    copied(tmp_path / "file", Path("/dev/null"))
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_file_that_is_a_mount_point_takes_a_file(tmp_path: Path) -> None:
    """It is written in place, after a first try beside it."""
    (tmp_path / "file").write_bytes(b"data")
    (tmp_path / "source").write_bytes(b"old and longer")
    (tmp_path / "mount").touch()
    file, mount = bytes(tmp_path / "file"), bytes(tmp_path / "mount")
    with_bind_mount(tmp_path / "source", tmp_path / "mount", lambda: copy(file, mount, recursive=False, check=go_on))
    assert (tmp_path / "source").read_bytes() == b"data"


def test_no_file_takes_the_place_of_a_directory(tmp_path: Path) -> None:
    """Nor does a link."""
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "directory").mkdir()
    for name in ("file", "link"):
        assert refusal(tmp_path / name, tmp_path / "directory").kind == "isADirectory"
    assert os.listdir(tmp_path / "directory") == []


@pytest.mark.parametrize("target", ["file", "directory", "none", "/no/such/file", "itself"])
def test_a_link_is_copied_as_a_link(tmp_path: Path, target: str) -> None:
    """Wherever it leads."""
    (tmp_path / "file").touch()
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to(target)
    copied(tmp_path / "link", tmp_path / "copy")
    assert os.readlink(tmp_path / "copy") == target


def test_a_link_replaces_files_and_links(tmp_path: Path) -> None:
    """A link in its way is not followed."""
    (tmp_path / "link").symlink_to("none")
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "other").symlink_to("kept")
    (tmp_path / "kept").write_bytes(b"kept")
    for name in ("file", "other", "link"):
        copied(tmp_path / "link", tmp_path / name)
        assert os.readlink(tmp_path / name) == "none"
    assert (tmp_path / "kept").read_bytes() == b"kept"
    assert sorted(os.listdir(tmp_path)) == ["file", "kept", "link", "other"]


def test_a_link_does_not_replace_what_it_leads_to(tmp_path: Path) -> None:
    """The file would be gone."""
    (tmp_path / "file").write_bytes(b"data")
    (tmp_path / "link").symlink_to("file")
    assert refusal(tmp_path / "link", tmp_path / "file").kind == "invalidInput"
    assert (tmp_path / "file").read_bytes() == b"data"


def test_a_link_replaces_no_fifo_and_no_device(open_directory: Path) -> None:
    """These are no files that a copy could stand for. As nobody, in case it would."""
    (open_directory / "link").symlink_to("none")
    os.mkfifo(open_directory / "fifo")
    assert refusal(open_directory / "link", open_directory / "fifo").kind == "invalidInput"
    with pytest.raises(InvalidRequest):
        unprivileged(lambda: copy(bytes(open_directory / "link"), b"/dev/null", recursive=True, check=go_on))


def test_special_files_are_refused_at_once(tmp_path: Path) -> None:
    """FIFO, socket, device: as the source, and in a tree."""
    (tmp_path / "tree").mkdir()
    os.mkfifo(tmp_path / "tree/fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
    for source in (tmp_path / "tree/fifo", tmp_path / "socket", Path("/dev/null"), tmp_path / "tree"):
        fault = refusal(source, tmp_path / "copy")
        assert (fault.message, fault.kind) == (SPECIAL, "invalidInput")
    assert not (tmp_path / "copy/fifo").exists()
    assert mode_of(tmp_path / "copy") == 0o700, "what is not complete is for its owner alone"


def test_no_fifo_takes_a_file(tmp_path: Path) -> None:
    """Nobody reads it, and nothing waits for that."""
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "fifo")
    assert refusal(tmp_path / "file", tmp_path / "fifo").kind == "invalidInput"


def test_a_directory_needs_recursive(tree: Path, tmp_path: Path) -> None:
    """Without it nothing is created."""
    fault = refusal(tree, tmp_path / "copy", recursive=False)
    assert (fault.message, fault.kind) == (NEEDS_RECURSIVE, "invalidInput")
    assert not (tmp_path / "copy").exists()


def test_a_tree_is_copied_with_modes_and_links(tree: Path, tmp_path: Path) -> None:
    """Links keep their words, files and directories their modes, also one that forbids writing."""
    (tree / "a/b").chmod(0o555)
    (tree / "a").chmod(0o700)
    copied(tree, tmp_path / "copy")
    copy_of = tmp_path / "copy"
    assert sorted(os.listdir(copy_of)) == ["a", "f", "link"]
    assert sorted(os.listdir(copy_of / "a")) == ["b", "dangling", "up"]
    assert (copy_of / "a/b/run").read_bytes() == b"run"
    assert [os.readlink(copy_of / name) for name in ("link", "a/dangling", "a/up")] == [
        "a/b/run",
        "/no/such/file",
        "..",
    ]
    assert [mode_of(copy_of / name) for name in ("f", "a", "a/b", "a/b/run")] == [0o640, 0o700, 0o555, 0o755]
    assert mode_of(copy_of) == mode_of(tree)


def test_a_read_only_tree_is_copied_by_its_owner(open_directory: Path) -> None:
    """The mode that forbids writing is set when the directory is complete."""
    tree = open_directory / "tree"
    (tree / "a").mkdir(parents=True)
    (tree / "a/f").write_bytes(b"f")
    (tree / "a").chmod(0o555)
    tree.chmod(0o555)
    unprivileged(lambda: copy(bytes(tree), bytes(open_directory / "copy"), recursive=True, check=go_on))
    assert (open_directory / "copy/a/f").read_bytes() == b"f"
    assert (mode_of(open_directory / "copy"), mode_of(open_directory / "copy/a")) == (0o555, 0o555)
    for path in (tree, tree / "a", open_directory / "copy", open_directory / "copy/a"):
        path.chmod(0o755)


def test_a_tree_is_merged_into_a_directory(tree: Path, tmp_path: Path) -> None:
    """Files are replaced, others stay, existing directories keep their modes."""
    existing = tmp_path / "existing"
    (existing / "a").mkdir(parents=True)
    (existing / "a").chmod(0o711)
    (existing / "a/own").write_bytes(b"own")
    (existing / "f").write_bytes(b"old")
    copied(tree, existing)
    assert (existing / "f").read_bytes() == b"f"
    assert (existing / "a/own").read_bytes() == b"own"
    assert (existing / "a/b/run").read_bytes() == b"run"
    assert mode_of(existing / "a") == 0o711


def test_a_destination_that_links_to_a_directory_is_merged_into(tree: Path, tmp_path: Path) -> None:
    """The caller named the link; its target takes the tree."""
    (tmp_path / "existing").mkdir()
    (tmp_path / "link").symlink_to("existing")
    copied(tree, tmp_path / "link")
    assert (tmp_path / "existing/a/b/run").read_bytes() == b"run"
    assert (tmp_path / "link").is_symlink()


def test_links_in_the_destination_are_not_followed(tree: Path, tmp_path: Path) -> None:
    """A file takes the place of a link, a directory can't; the outside stays."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/f").write_bytes(b"outside")
    (tmp_path / "existing").mkdir()
    (tmp_path / "existing/f").symlink_to(tmp_path / "outside/f")
    (tmp_path / "existing/a").symlink_to(tmp_path / "outside")
    with pytest.raises(NotADirectoryError):
        copied(tree, tmp_path / "existing")
    assert (tmp_path / "existing/f").read_bytes() == b"f"
    assert not (tmp_path / "existing/f").is_symlink()
    assert os.listdir(tmp_path / "outside") == ["f"]
    assert (tmp_path / "outside/f").read_bytes() == b"outside"


def test_a_directory_meets_a_file_and_a_file_a_directory(tmp_path: Path) -> None:
    """Neither replaces the other."""
    (tmp_path / "tree/x").mkdir(parents=True)
    (tmp_path / "file").touch()
    (tmp_path / "one").mkdir()
    (tmp_path / "one/x").touch()
    for destination in ("file", "one"):
        with pytest.raises(NotADirectoryError):
            copied(tmp_path / "tree", tmp_path / destination)
    (tmp_path / "two").mkdir()
    (tmp_path / "two/x").touch()
    assert refusal(tmp_path / "two", tmp_path / "tree").kind == "isADirectory"


@pytest.mark.parametrize("destination", ["tree", "tree/", "tree/new", "tree/a/b/c/d", "link", "link/n", "tree/a/../n"])
def test_a_directory_is_not_copied_into_itself(tree: Path, tmp_path: Path, destination: str) -> None:
    """However the destination is written; nothing is created."""
    (tmp_path / "link").symlink_to("tree")
    fault = refusal(tree, Path(f"{tmp_path}/{destination}"))
    assert (fault.message, fault.kind) == (INTO_ITSELF, "invalidInput")
    assert sorted(os.listdir(tree)) == ["a", "f", "link"]


def test_links_above_the_source_do_not_hide_that(tree: Path, tmp_path: Path) -> None:
    """Both paths are resolved."""
    (tmp_path / "link").symlink_to(".")
    assert refusal(tmp_path / "link/tree", tree / "new").message == INTO_ITSELF
    assert sorted(os.listdir(tree)) == ["a", "f", "link"]


def test_the_root_holds_every_destination(tmp_path: Path) -> None:
    """So it can be copied nowhere."""
    assert refusal(Path("/"), tmp_path / "copy").message == INTO_ITSELF


def test_a_neighbour_with_a_longer_name_is_not_inside(tree: Path, tmp_path: Path) -> None:
    """Names are compared, not letters; a directory may also be copied to above itself."""
    copied(tree, tmp_path / "tree2")
    copied(tree / "a", tmp_path)
    assert (tmp_path / "tree2/f").exists() and (tmp_path / "b/run").exists()


def test_a_mount_of_itself_is_noticed(tree: Path, tmp_path: Path) -> None:
    """No path shows that the destination is inside; the copy meets it and stops."""
    (tmp_path / "mount").mkdir()
    with pytest.raises(InvalidRequest) as caught:
        with_bind_mount(
            tree,
            tmp_path / "mount",
            lambda: copy(bytes(tree), bytes(tmp_path / "mount/new"), recursive=True, check=go_on),
        )
    assert caught.value.message == INTO_ITSELF


def test_a_missing_source_or_parent_is_an_os_error(tree: Path, tmp_path: Path) -> None:
    """And nothing is created."""
    for source, destination in (("none", "copy"), ("tree", "none/copy"), ("tree/f", "none/copy"), ("tree/link", "n/c")):
        with pytest.raises(OSError) as caught:
            copied(tmp_path / source, tmp_path / destination)
        assert caught.value.errno == errno.ENOENT
    assert os.listdir(tmp_path) == ["tree"]


def test_depth_is_no_limit(deep_tree: Path, deep_directory: Path) -> None:
    """Deeper than Python recurses and than a path can tell; no descriptor is left."""
    before = open_descriptors()
    copied(deep_tree, deep_directory / "copy")
    copied(deep_tree, deep_directory / "copy")  # merged into the first copy
    with reach(deep_path(deep_directory / "copy") + b"/leaf") as place:
        found = place.stat()
    assert (found.st_size, stat.S_IMODE(found.st_mode)) == (4, 0o640)
    assert open_descriptors() <= before


def test_names_that_are_not_utf8_are_copied(tmp_path: Path) -> None:
    """Of files, directories and links."""
    top = bytes(tmp_path)
    os.makedirs(top + b"/tree/\xff")
    os.symlink(b"\xfe", top + b"/tree/\xff/\xfd")
    copied(tmp_path / "tree", tmp_path / "copy")
    assert os.readlink(top + b"/copy/\xff/\xfd") == b"\xfe"


def test_links_swapped_in_meanwhile_lead_nowhere(tree: Path, tmp_path: Path) -> None:
    """While someone swaps what is in the source for links to secrets, again and again, no secret is copied."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/secret").write_bytes(b"secret")
    inside, swap, link = tree / "a", tmp_path / "swap", tmp_path / "swapped-link"
    stop = threading.Event()

    def attack() -> None:
        while not stop.is_set():
            inside.rename(swap)
            inside.symlink_to(tmp_path / "secret")
            inside.unlink()
            swap.rename(inside)
            link.symlink_to(tmp_path / "secret/secret")
            link.rename(tree / "f")
            swap.write_bytes(b"f")
            swap.rename(tree / "f")

    attacker = threading.Thread(target=attack, daemon=True)
    attacker.start()
    for number in range(100):
        with suppress(OSError, InvalidRequest):  # it met the swap
            copied(tree, tmp_path / f"copy{number}")
    stop.set()
    attacker.join(30)
    copies = [path for path in tmp_path.glob("copy*/a") if not path.is_symlink()]
    assert not [path for path in copies if (path / "secret").exists()]
    files = [path for path in tmp_path.glob("copy*/f") if not path.is_symlink()]
    assert b"secret" not in [path.read_bytes() for path in files]


@pytest.mark.parametrize("checks", [1, 2, 3, 5])
def test_a_check_ends_a_copy(tmp_path: Path, checks: int) -> None:
    """At a file of a tree or within one; no part of a file is left, nor anything beside it."""
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in ("a", "b"):
        (tree / name).write_bytes(b"x" * (COPY_CHUNK_BYTES + 1))
    left = iter(range(checks))

    def check() -> None:
        if next(left) == checks - 1:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        in_time(lambda: copy(bytes(tree), bytes(tmp_path / "copy"), recursive=True, check=check))
    copies = list((tmp_path / "copy").iterdir())
    assert all(file.read_bytes() == (tree / file.name).read_bytes() for file in copies)
    assert len(copies) == (1 if checks > 3 else 0)


def test_a_check_ends_a_copy_of_directories(tmp_path: Path) -> None:
    """There may be many of them, and not one file."""
    for number in range(3):
        (tmp_path / f"tree/{number}").mkdir(parents=True)

    def check() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        in_time(lambda: copy(bytes(tmp_path / "tree"), bytes(tmp_path / "copy"), recursive=True, check=check))
