"""Lines of a file with their numbers."""

from __future__ import annotations

from typing import Any

import pytest
from fake_files import FakeFiles

from execsrv.session.tools.read_file import read_file
from execsrv.session.tools.result import ToolFault


def read(content: bytes, **arguments: Any) -> list[str]:
    """The lines that the tool shows of a file with ``content``."""
    result = read_file(FakeFiles({"f": content}), "/f", **arguments)
    assert result.success and result.image_url is None
    return result.text.split("\n")


def fault(content: bytes, **arguments: Any) -> str:
    """The words with which the tool fails."""
    with pytest.raises(ToolFault) as caught:
        read_file(FakeFiles({"f": content}), "/f", **arguments)
    return str(caught.value)


# ---- slices --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content, expected",
    [
        (b"a", ["L1: a"]),
        (b"a\n", ["L1: a"]),
        (b"a\nb\n", ["L1: a", "L2: b"]),
        (b"a\r\nb\r\n", ["L1: a", "L2: b"]),
        (b"a\r\n\r\nb\r", ["L1: a", "L2: ", "L3: b"]),
        (b"a\rb\n", ["L1: a\rb"]),
        (b"a\n\n", ["L1: a", "L2: "]),
        (b"\n", ["L1: "]),
        (b"\t a  \n", ["L1: \t a  "]),
        ("é\u2028\x0bx\n".encode(), ["L1: é\u2028\x0bx"]),
        (b"a\xff\xfeb\n", ["L1: a\ufffd\ufffdb"]),
    ],
)
def test_lines_end_with_a_line_feed_or_carriage_return_and_line_feed(content: bytes, expected: list[str]) -> None:
    """And with nothing else; the last needs no end. What is not UTF-8 is replaced."""
    assert read(content) == expected


@pytest.mark.parametrize(
    "offset, limit, expected",
    [
        (1, 1, ["L1: 1"]),
        (2, 2, ["L2: 2", "L3: 3"]),
        (3, 1, ["L3: 3"]),
        (3, 99, ["L3: 3"]),
        (2, 2**53 - 1, ["L2: 2", "L3: 3"]),
    ],
)
def test_a_slice_begins_at_its_offset_and_ends_at_its_limit(offset: int, limit: int, expected: list[str]) -> None:
    """Or at the file's end."""
    assert read(b"1\n2\n3\n", offset=offset, limit=limit) == expected


@pytest.mark.parametrize("content, offset", [(b"1\n2\n3\n", 4), (b"1\n2\n3\n", 2**53 - 1), (b"", 1)])
def test_an_offset_after_the_last_line_is_a_fault(content: bytes, offset: int) -> None:
    """An empty file has no line at all."""
    assert fault(content, offset=offset) == "offset exceeds file length"


def test_two_thousand_lines_are_read_unless_told_otherwise() -> None:
    """From the first on."""
    lines = read(b"x\n" * 3000)
    assert (len(lines), lines[-1]) == (2000, "L2000: x")


def test_a_long_line_is_cut_where_a_character_ends() -> None:
    """At 500 bytes; its number does not count."""
    assert read("aé".encode() * 300) == ["L1: " + "aé" * 166 + "a"]


def test_what_keeps_a_file_from_being_read_is_told() -> None:
    """One that is not there, a directory, and a path that can't be."""
    files = FakeFiles({"d": {}})
    for path, words in {
        "/x": "No such file or directory",
        "/d": "Is a directory",
        "/\0": "embedded null byte",
    }.items():
        with pytest.raises(ToolFault, match=f"^failed to read file: {words}$"):
            read_file(files, path)


# ---- blocks --------------------------------------------------------------------------------------------------------

SOURCE = b"def f():\r\n    if x:\r\n        y()\r\n    z()\r\n"


def test_a_block_is_read_by_its_anchor() -> None:
    """Lines keep their numbers, ends are taken off."""
    lines = read(SOURCE, mode="indentation", indentation={"anchor_line": 3, "max_levels": 1})
    assert lines == ["L2:     if x:", "L3:         y()"]


def test_the_offset_is_the_anchor_of_a_block_without_one() -> None:
    """And all levels belong to a block that nothing is said of."""
    whole = ["L1: def f():", "L2:     if x:", "L3:         y()", "L4:     z()"]
    assert read(SOURCE, mode="indentation", offset=3) == whole
    assert read(SOURCE, mode="indentation", offset=3, indentation={"max_levels": 1}) == whole[1:3]


def test_a_block_is_no_longer_than_either_limit() -> None:
    """The tool's own and the block's."""
    three = {"anchor_line": 3, "max_lines": 3}
    assert len(read(SOURCE, mode="indentation", limit=2, indentation=three)) == 2
    assert len(read(SOURCE, mode="indentation", indentation=three)) == 3


def test_a_slice_does_not_care_about_blocks() -> None:
    """What describes one is ignored."""
    assert read(b"a\nb\n", indentation={"anchor_line": 9}) == ["L1: a", "L2: b"]


@pytest.mark.parametrize("content", [b"", SOURCE])
def test_an_anchor_after_the_last_line_is_a_fault(content: bytes) -> None:
    """Also when it is the offset."""
    words = "anchor_line exceeds file length"
    assert fault(content, mode="indentation", indentation={"anchor_line": 5}) == words
    assert fault(content, mode="indentation", offset=5) == words
