"""The block around a line, in several languages."""

from __future__ import annotations

from typing import Any

import pytest

from execsrv.session.tools.indentation import BlockOptions, find_block
from execsrv.session.tools.result import ToolFault

RUST = """\
mod shapes {
    /// The area of a square.
    #[inline]
    fn area(side: u32) -> u32 {
        if side == 0 {
            return 0;
        }
        side * side
    }

    fn name() -> &'static str {
        "square"
    }
}
"""

PYTHON = """\
import os

# Where things are.
class Places:
    def __init__(self, root):
        self.root = root

    @property
    def parent(self):
        return os.path.dirname(
            self.root
        )

    def names(self):
        for name in os.listdir(self.root):

            yield name
        yield "."

class Other:
    pass
"""

C_PLUS_PLUS = """\
#include <string>

namespace demo
{
class Counter {
public:
    void reset()
    {
        value = 0;
    }

    // Counts up.
    int next() {
        switch (mode) {
            case Fast:
                return value += 2;
            default:
                return ++value;
        }
    }

private:
    int value = 0;
};
}
"""

SIGNATURE = """\
def area(
    width,
    height,
) -> int:
    return width * height


area(
    1,
    2,
)
"""

SHELL = """\
if test -d x
then
  for f in x/*
  do
    rm "$f"
  done
fi
echo done
"""


HTML = """\
<ul>
  <li>
    one
  </li>
  <li>two</li>
</ul>
<p>
"""


def block(source: str, anchor: int, limit: int = 100, **options: Any) -> tuple[int, int]:
    """The numbers of the first and the last line of the block around a line."""
    lines = source.encode().removesuffix(b"\n").split(b"\n")
    found = find_block(lines, 1, limit, BlockOptions(anchor_line=anchor, **options))
    return found.start + 1, found.stop


@pytest.mark.parametrize(
    "source, anchor, levels, expected",
    [
        (RUST, 6, 1, (5, 7)),
        (RUST, 6, 2, (2, 9)),
        (RUST, 6, 3, (1, 14)),
        (RUST, 6, 9, (1, 14)),
        (RUST, 6, 0, (1, 14)),
        (RUST, 8, 1, (2, 9)),
        (RUST, 9, 1, (1, 14)),
        (RUST, 12, 1, (11, 13)),
        (PYTHON, 6, 1, (5, 6)),
        (PYTHON, 6, 2, (3, 18)),
        (PYTHON, 11, 1, (10, 12)),
        (PYTHON, 12, 1, (8, 12)),
        (PYTHON, 17, 1, (15, 17)),
        (PYTHON, 17, 2, (14, 18)),
        (PYTHON, 16, 1, (14, 18)),
        (PYTHON, 18, 1, (14, 18)),
        (PYTHON, 21, 1, (20, 21)),
        (PYTHON, 20, 1, (20, 21)),
        (PYTHON, 4, 0, (3, 18)),
        (C_PLUS_PLUS, 9, 1, (7, 10)),
        (C_PLUS_PLUS, 16, 1, (15, 16)),
        (C_PLUS_PLUS, 15, 1, (14, 19)),
        (C_PLUS_PLUS, 15, 2, (12, 20)),
        (SIGNATURE, 2, 1, (1, 5)),
        (SIGNATURE, 5, 1, (1, 5)),
        (SIGNATURE, 5, 0, (1, 5)),
        (SIGNATURE, 1, 0, (1, 5)),
        (SIGNATURE, 4, 1, (1, 5)),
        (SIGNATURE, 10, 1, (8, 11)),
        (SHELL, 5, 1, (4, 6)),
        (SHELL, 3, 1, (2, 7)),
        (HTML, 3, 1, (2, 4)),
        (HTML, 3, 2, (1, 6)),
        ("call(\n    a, [\n    ], b(\n        c\n    )\n)\n", 4, 1, (2, 5)),
        ("a\n    ) + (\n        b\n    )\nc\n", 3, 1, (2, 4)),
    ],
)
def test_a_block_is_its_header_and_what_is_below_it(
    source: str, anchor: int, levels: int, expected: tuple[int, int]
) -> None:
    """With its closing bracket, and as many levels around it as there are; 0: all."""
    assert block(source, anchor, max_levels=levels) == expected


@pytest.mark.parametrize("indent", ["  ", "        ", "\t"])
def test_a_level_is_whatever_a_source_is_indented_by(indent: str) -> None:
    """Two spaces, eight or a tab."""
    source = RUST.replace("    ", indent)
    assert block(source, 6, max_levels=1) == (5, 7)
    assert block(source, 6, max_levels=2) == (2, 9)


def test_a_tab_is_four_columns() -> None:
    """As far in as four spaces, less than five, more than three."""
    source = "def f():\n\tif x:\n     a\n\tb\n   c\n"
    assert block(source, 4, max_levels=1) == (1, 5)
    assert block(source, 3, max_levels=1) == (2, 3)
    assert block(source, 3, max_levels=1, include_siblings=True) == (2, 4)


@pytest.mark.parametrize(
    "source, anchor, levels, expected",
    [
        (RUST, 6, 1, (5, 8)),
        (RUST, 12, 1, (2, 13)),
        (PYTHON, 17, 1, (15, 18)),
        (PYTHON, 17, 2, (5, 18)),
        (C_PLUS_PLUS, 15, 2, (7, 20)),
        (C_PLUS_PLUS, 15, 0, (1, 25)),
    ],
)
def test_siblings_are_indented_as_the_block_is(
    source: str, anchor: int, levels: int, expected: tuple[int, int]
) -> None:
    """On both sides, up to what is indented less."""
    assert block(source, anchor, max_levels=levels, include_siblings=True) == expected


@pytest.mark.parametrize(
    "source, anchor, levels, expected",
    [(RUST, 6, 2, (4, 9)), (PYTHON, 10, 1, (9, 12)), (PYTHON, 6, 2, (4, 18)), (C_PLUS_PLUS, 15, 2, (13, 20))],
)
def test_a_header_may_be_left_out(source: str, anchor: int, levels: int, expected: tuple[int, int]) -> None:
    """Comments, decorators and attributes above the block."""
    assert block(source, anchor, max_levels=levels, include_header=False) == expected


@pytest.mark.parametrize(
    "above, lines",
    [
        ("# a", 1),
        ("// a\n/// b", 2),
        ("-- a", 1),
        ("/* a\n * b\n *\n */", 4),
        ("@a\n@b(1)", 2),
        ("#[a]", 1),
        ("*pointer = 1", 0),
        ("# a\n", 0),
        ("x = 1\n# a", 1),
    ],
)
def test_a_header_is_what_stands_directly_above(above: str, lines: int) -> None:
    """Comments of many languages, decorators, attributes; a blank line ends it."""
    source = f"{above}\ndef f():\n    pass\n"
    first = source.splitlines().index("def f():") + 1
    assert block(source, first + 1) == (first - lines, first + 1)


def test_comments_of_less_indentation_are_of_something_else() -> None:
    """They belong to no header of this level."""
    assert block("class A:\n# odd\n    def f():\n        pass\n", 4, max_levels=1) == (3, 4)


@pytest.mark.parametrize(
    "anchor, limit, expected",
    [
        (5, 1, (5, 5)),
        (5, 2, (4, 5)),
        (5, 3, (4, 6)),
        (5, 4, (3, 6)),
        (2, 4, (1, 4)),
        (9, 4, (6, 9)),
        (8, 5, (5, 9)),
        (1, 3, (1, 3)),
        (5, 9, (1, 9)),
        (5, 2**53, (1, 9)),
    ],
)
def test_of_a_long_block_the_lines_nearest_the_anchor_are_taken(
    anchor: int, limit: int, expected: tuple[int, int]
) -> None:
    """As many on either side, unless there are not."""
    source = "x\n" * 9
    assert block(source, anchor, limit, include_siblings=True) == expected
    assert block(source, anchor, max_lines=limit, include_siblings=True) == expected


@pytest.mark.parametrize(
    "source, anchor, expected",
    [
        ("def f():\n    a\n\n\ndef g():\n    b\n", 2, (1, 2)),
        ("def f():\n    a\n\n\ndef g():\n    b\n", 3, (1, 2)),
        ("\n  \ndef f():\n\n    a\n", 1, (1, 1)),
        ("\n\n\n", 2, (1, 1)),
        ("x", 1, (1, 1)),
    ],
)
def test_blank_lines_around_a_block_are_left_out(source: str, anchor: int, expected: tuple[int, int]) -> None:
    """A blank anchor belongs to what is above it; one line is left in any case."""
    assert block(source, anchor) == expected


@pytest.mark.parametrize("anchor", range(1, 15))
@pytest.mark.parametrize("siblings", [False, True])
@pytest.mark.parametrize("levels", [0, 1, 2])
def test_a_block_holds_its_anchor(anchor: int, siblings: bool, levels: int) -> None:
    """Unless that is blank and at the end of it."""
    first, last = block(RUST, anchor, max_levels=levels, include_siblings=siblings)
    assert first <= anchor <= last or anchor == 10


def test_an_anchor_that_is_not_there_is_a_fault() -> None:
    """The line after the last, and any line of nothing."""
    for lines, anchor in ([b"a"], 2), ([], 1):
        with pytest.raises(ToolFault, match="^anchor_line exceeds file length$"):
            find_block(lines, anchor, 10, BlockOptions())


@pytest.mark.parametrize("space", ["\N{NO-BREAK SPACE}", "\f"])
def test_indentation_is_made_of_spaces_and_tabs_only(space: str) -> None:
    """Another kind of space is text."""
    assert block(f"def f():\n    a\n{space}b\n", 2) == (1, 2)
