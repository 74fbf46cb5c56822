"""Tests of execsrv.session.path_mapper."""

from __future__ import annotations

import os

import pytest

from execsrv.session.path_mapper import PathMapper

ROOTS = ("/home/me/code", "/srv/space")

INSIDE = [
    ("/home/me/code", "/srv/space"),
    ("/home/me/code/src/lib.py", "/srv/space/src/lib.py"),
    ("/home/me/code/..src/...", "/srv/space/..src/..."),
    ("/home/me/code/new\nline\n", "/srv/space/new\nline\n"),
    ("/home/me/code/" + os.fsdecode(b"caf\xe9"), "/srv/space/" + os.fsdecode(b"caf\xe9")),
]

ROUNDABOUT = [
    ("//home//me/./code//src", "/srv/space//src"),
    ("/home/you/../me/code/src", "/srv/space/src"),
    ("/../home/me/code/src", "/srv/space/src"),
    ("/home/me/code/../code/src", "/srv/space/src"),
    ("/home/me/code/a/../../code/../code/b/../c", "/srv/space/b/../c"),
    ("/home/me/code/link/../file", "/srv/space/link/../file"),
    ("/home/me/code/file/", "/srv/space/file/"),
    ("/home/me/code/directory/.", "/srv/space/directory/."),
    ("/home/me/code/a/..", "/srv/space/a/.."),
]

OUTSIDE = [
    "/",
    "/tmp/outside.txt",
    "/home/me",
    "/home/me/codex/src",
    "/home/me/cod",
    "/home/me/code/../other",
    "/home/me/code/..",
    "/home/me/code/a/../../../me/codex",
    "/tmp//a/../b/",
    "home/me/code/src",
    "../home/me/code",
    "",
]


@pytest.mark.parametrize("local, remote", INSIDE)
def test_what_is_inside_moves_there_and_back(local: str, remote: str) -> None:
    """The root itself too, and whatever characters names have."""
    mapper = PathMapper(*ROOTS)
    assert mapper.to_remote(local) == remote
    assert mapper.to_local(remote) == local


@pytest.mark.parametrize("local, remote", ROUNDABOUT)
def test_a_way_round_leads_inside_too(local: str, remote: str) -> None:
    """What follows the root is kept as it is: the executor's system knows what it means."""
    assert PathMapper(*ROOTS).to_remote(local) == remote


@pytest.mark.parametrize("path", OUTSIDE)
def test_what_is_outside_stays(path: str) -> None:
    """A name that begins like the root's is another name, and a way out leads out."""
    assert PathMapper(*ROOTS).to_remote(path) == path
    assert PathMapper("/srv/space", "/home/me/code").to_local(path) == path


def test_a_path_of_the_executor_stays() -> None:
    """A session that was told one, by ``pwd`` for instance, may use it."""
    assert PathMapper(*ROOTS).to_remote("/srv/space/src") == "/srv/space/src"


@pytest.mark.parametrize("root", ["/home/me/code/", "/home//me/./code", "/home/me/x/../code"])
def test_a_root_may_be_written_in_any_way(root: str) -> None:
    """It is the same directory."""
    assert PathMapper(root, "/srv").to_remote("/home/me/code/a") == "/srv/a"
    assert PathMapper("/srv", root).to_remote("/srv/a") == "/home/me/code/a"


def test_the_root_directory_may_be_a_root() -> None:
    """Everything lies in it."""
    for slashes in ("/", "//", "/.."):
        down, up = PathMapper(slashes, "/srv"), PathMapper("/srv", slashes)
        assert [down.to_remote(path) for path in ("/", "/a", "//a/../b")] == ["/srv/", "/srv/a", "/srv//a/../b"]
        assert [up.to_remote(path) for path in ("/srv", "/srv/", "/srv/a", "/a")] == ["/", "/", "/a", "/a"]
        assert [down.to_local(path) for path in ("/srv", "/srv/a")] == ["/", "/a"]


def test_one_root_may_lie_in_the_other() -> None:
    """Each path moves once."""
    mapper = PathMapper("/a", "/a/b")
    assert mapper.to_remote("/a/b/c") == "/a/b/b/c"
    assert mapper.to_local("/a/b/b/c") == "/a/b/c"


def test_a_long_path_takes_no_long_time() -> None:
    """Each component is read once."""
    path = "/home/me/code" + "/." * 300_000
    assert PathMapper(*ROOTS).to_remote(path) == "/srv/space" + "/." * 300_000


@pytest.mark.parametrize("roots", [("code", "/srv"), ("/code", "srv"), ("", "/srv")])
def test_a_root_is_absolute(roots: tuple[str, str]) -> None:
    """Else nothing could be told to lie in it."""
    with pytest.raises(ValueError, match="absolute"):
        PathMapper(*roots)
