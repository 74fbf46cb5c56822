"""Pages of a directory's entries."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest
from fake_files import DEVICE, LINK, FakeFiles

from execsrv.session.tools.list_dir import MAX_ENTRIES, list_dir
from execsrv.session.tools.result import ToolFault

TREE: dict[str, Any] = {
    "root.txt": b"",
    "nested": {"child.txt": b"", "deeper": {"grandchild.txt": b"", "deepest": {"last": b""}}},
    "link": LINK,
    "device": DEVICE,
    "empty": {},
}


def lines(tree: dict[str, Any], **arguments: Any) -> list[str]:
    """What is listed of ``/d``, which ``tree`` is, after the path."""
    result = list_dir(FakeFiles({"d": tree}), "/d", **arguments)
    assert result.success and result.image_url is None
    first, *entries = result.text.split("\n")
    assert first == "Absolute path: /d"
    return entries


def fault(files: FakeFiles, path: str, **arguments: Any) -> str:
    """The words with which the tool fails."""
    with pytest.raises(ToolFault) as caught:
        list_dir(files, path, **arguments)
    return str(caught.value)


def test_entries_are_marked_and_sorted() -> None:
    """A directory, a link, a regular file and what is none of these."""
    assert lines(TREE, depth=1) == ["device?", "empty/", "link@", "nested/", "root.txt"]


@pytest.mark.parametrize(
    "depth, nested",
    [
        (1, []),
        (2, ["  child.txt", "  deeper/"]),
        (3, ["  child.txt", "  deeper/", "    deepest/", "    grandchild.txt"]),
        (4, ["  child.txt", "  deeper/", "    deepest/", "      last", "    grandchild.txt"]),
        (2**53 - 1, ["  child.txt", "  deeper/", "    deepest/", "      last", "    grandchild.txt"]),
    ],
)
def test_levels_are_listed_down_to_the_depth(depth: int, nested: list[str]) -> None:
    """Each directory's entries below it, two spaces further in."""
    assert lines(TREE, depth=depth) == ["device?", "empty/", "link@", "nested/", *nested, "root.txt"]


def test_two_levels_and_twenty_five_entries_are_listed_unless_told_otherwise() -> None:
    """From the first on."""
    tree: dict[str, Any] = {f"file_{number:02}": b"" for number in range(40)}
    assert lines({"a": {"b": {"c": b""}}}) == ["a/", "  b/"]
    assert lines(tree) == [*sorted(tree)[:25], "More than 25 entries found"]


def test_a_directory_is_sorted_by_its_own_names() -> None:
    """What is in ``a`` comes right below it, before ``a-b``."""
    assert lines({"a-b": b"", "a": {"z": b""}, "B": b"", "é": b""}) == ["B", "a/", "  z", "a-b", "é"]


@pytest.mark.parametrize(
    "offset, limit, expected",
    [
        (1, 2, ["a/", "  1", "More than 2 entries found"]),
        (3, 2, ["b/", "  2"]),
        (2, 2, ["  1", "b/", "More than 2 entries found"]),
        (4, 1, ["  2"]),
        (3, 1, ["b/", "More than 1 entries found"]),
        (2, 2**53 - 1, ["  1", "b/", "  2"]),
        (1, 4, ["a/", "  1", "b/", "  2"]),
    ],
)
def test_pages_follow_each_other(offset: int, limit: int, expected: list[str]) -> None:
    """The last line says that there is more."""
    assert lines({"b": {"2": b""}, "a": {"1": b""}}, offset=offset, limit=limit) == expected


@pytest.mark.parametrize("offset", [3, 4, 2**53 - 1])
def test_an_offset_after_the_last_entry_is_a_fault(offset: int) -> None:
    """One that is just one too large, and a very large one."""
    files = FakeFiles({"a": {"b": b""}})
    assert fault(files, "/", offset=offset) == "offset exceeds directory entry count"


@pytest.mark.parametrize("offset", [1, 2, 2**53 - 1])
def test_an_empty_directory_has_no_entries(offset: int) -> None:
    """That is no fault, whatever the offset."""
    assert lines({}, offset=offset) == []


def test_no_more_directories_are_read_than_a_page_needs() -> None:
    """One more entry than the page has is looked for, to know whether there is more."""
    files = FakeFiles({name: {"x": b"", "y": {"z": b""}} for name in "abcd"})
    list_dir(files, "/", limit=3, depth=3)
    assert files.read_directories == ["/", "/a", "/a/y"]
    files.read_directories.clear()
    list_dir(files, "/", offset=4, limit=2, depth=3)
    assert files.read_directories == ["/", "/a", "/a/y", "/b"]


def test_a_link_is_not_followed() -> None:
    """Nor is anything read but directories."""
    files = FakeFiles({"link": LINK, "device": DEVICE, "file": b"", "a": {}})
    list_dir(files, "/", depth=9)
    assert files.read_directories == ["/", "/a"]


def test_names_are_shown_as_text() -> None:
    """What is not UTF-8 is replaced, a line break escaped, a long name cut; marks stay."""
    tree = {"a\udcff": b"", "b\nc": {}, "é" * 300: LINK}
    assert lines(tree) == ["a\ufffd", "b\\nc/", "é" * 250 + "@"]


def test_what_keeps_the_directory_from_being_listed_is_told() -> None:
    """One that is not there, is none, can't be read, and a path that can't be."""
    files = FakeFiles({"f": b"", "locked": OSError(errno.EACCES, "Permission denied")})
    assert fault(files, "/x") == "unable to access `/x`: No such file or directory"
    assert fault(files, "/\0") == "unable to access `/\0`: embedded null byte"
    assert fault(files, "/f") == "`/f` is not a directory"
    assert fault(files, "/locked") == "failed to read directory: Permission denied"


def test_a_directory_further_down_that_cannot_be_read_is_told_in_its_place() -> None:
    """The others are listed all the same."""
    locked = OSError(errno.EACCES, "Permission denied")
    assert lines({"a": {"b": locked, "c": b""}, "d": {"e": b""}}, depth=3) == [
        "a/",
        "  b/",
        "    failed to read directory: Permission denied",
        "  c",
        "d/",
        "  e",
    ]


def test_a_call_does_not_walk_over_everything() -> None:
    """A page ends with the last entry that it may reach, and none begins after it."""
    files = FakeFiles({f"{number:05}": b"" for number in range(MAX_ENTRIES + 1)})
    result = list_dir(files, "/", offset=MAX_ENTRIES - 1, limit=5)
    assert result.text.split("\n")[1:] == ["09998", "09999", "More than 2 entries found"]
    words = f"only the first {MAX_ENTRIES} entries are listed: list a directory further down"
    assert fault(files, "/", offset=MAX_ENTRIES + 1) == words
    assert fault(files, "/", offset=2**53 - 1) == words


def test_a_tree_may_be_as_deep_as_a_path_allows() -> None:
    """It is walked without recursion."""
    depth = 2000
    tree: dict[str, Any] = {}
    for _ in range(depth):
        tree = {"d": tree}
    assert len(lines(tree, depth=depth, limit=depth)) == depth


def test_paths_are_joined_with_one_slash() -> None:
    """Also below a path that ends with one."""
    files = FakeFiles({"a": {"b": {}}})
    assert list_dir(files, "/a/").text == os.linesep.join(["Absolute path: /a/", "b/"])
    assert files.read_directories == ["/a/", "/a/b"]
