"""The block of code around a line, found by indentation alone, whatever the language.

A block is a header with the more indented lines below it, to which a closing bracket, or a word like ``end``, at the
header's own indentation still belongs. Blank lines belong to what is around them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from execsrv.session.tools.result import ToolFault

#: How many columns a tab takes.
TAB_WIDTH = 4

#: How a line begins that goes on with the block above it, though it is not more indented: it closes something, or
#: is nothing but an opening bracket.
_GOES_ON = re.compile(rb"[)\]}]|(end|fi|done|esac)\b|</|[({\[]\s*$")

#: How a line begins that belongs to the header below it: comments of many languages, decorators and attributes.
_BELONGS_BELOW = re.compile(rb"#|//|--|/\*|\*/|\*(\s|$)|@")

Lines: TypeAlias = Sequence[bytes]


@dataclass(frozen=True, slots=True)
class BlockOptions:
    """Which block, and how much of it.

    anchor_line: the number of a line in it, counted from 1. None: the offset.
    max_levels: how many enclosing levels, each less indented than the one before, belong to it; 0: all.
    include_siblings: with its neighbours that are indented as it is.
    include_header: with the comments, decorators and attributes directly above it.
    max_lines: how many lines at most. None: as many as the limit.
    """

    anchor_line: int | None = None
    max_levels: int = 0
    include_siblings: bool = False
    include_header: bool = True
    max_lines: int | None = None


def find_block(lines: Lines, offset: int, limit: int, options: BlockOptions) -> range:
    """The indices of a block, blank lines around it left out; of one that is too long the lines nearest the anchor.

    Raises ToolFault when there is no line with the anchor's number.
    """
    anchor = (options.anchor_line or offset) - 1
    if anchor >= len(lines):
        raise ToolFault("anchor_line exceeds file length")
    floor = _floor(lines, anchor, options.max_levels)
    block = _with_siblings(lines, anchor, floor) if options.include_siblings else _alone(lines, anchor, floor)
    if options.include_header:
        block = range(_above_header(lines, block.start, floor), block.stop)
    return _trimmed(lines, _nearest(block, anchor, min(limit, options.max_lines or limit)))


def _floor(lines: Lines, anchor: int, levels: int) -> int:
    """The indentation of the outermost level that is wanted; 0 levels: of all."""
    indent = next((_indent(lines[index]) for index in range(anchor, -1, -1) if not _is_blank(lines[index])), 0)
    if not levels:
        return 0
    for line in reversed(lines[:anchor]):
        if not levels:
            break
        if not _is_blank(line) and _indent(line) < indent:
            indent = _indent(line)
            levels -= 1
    return indent


def _with_siblings(lines: Lines, anchor: int, floor: int) -> range:
    """All lines around that are indented at least as far as ``floor``."""
    return _around(lines, anchor, lambda line: _is_blank(line) or _indent(line) >= floor)


def _alone(lines: Lines, anchor: int, floor: int) -> range:
    """A header at ``floor`` and what is in its block."""

    def inside(line: bytes) -> bool:
        return _is_blank(line) or _indent(line) > floor or (_indent(line) == floor and _goes_on(line))

    block = _around(lines, anchor, inside)
    above = block.start - 1
    if not inside(lines[anchor]):
        return range(anchor, block.stop)
    return range(above, block.stop) if above >= 0 and _indent(lines[above]) == floor else block


def _around(lines: Lines, anchor: int, wanted: Callable[[bytes], bool]) -> range:
    """From the anchor as far up and down as lines are wanted."""
    start, stop = anchor, anchor + 1
    while start > 0 and wanted(lines[start - 1]):
        start -= 1
    while stop < len(lines) and wanted(lines[stop]):
        stop += 1
    return range(start, stop)


def _above_header(lines: Lines, header: int, floor: int) -> int:
    """The index of the first of the comments and the like that stand directly above ``header``."""
    while header > 0 and _indent(lines[header - 1]) >= floor and _BELONGS_BELOW.match(lines[header - 1].lstrip()):
        header -= 1
    return header


def _nearest(block: range, anchor: int, count: int) -> range:
    """``count`` lines of the block with the anchor in their middle, if there are as many on both sides."""
    above = min(anchor - block.start, max(count // 2, count - (block.stop - anchor)))
    start = anchor - above
    return range(start, min(block.stop, start + count))


def _trimmed(lines: Lines, block: range) -> range:
    """Without blank lines at both ends, save that one line is left."""
    start, stop = block.start, block.stop
    while stop - start > 1 and _is_blank(lines[stop - 1]):
        stop -= 1
    while stop - start > 1 and _is_blank(lines[start]):
        start += 1
    return range(start, stop)


def _goes_on(line: bytes) -> bool:
    return _GOES_ON.match(line.lstrip()) is not None


def _is_blank(line: bytes) -> bool:
    return not line.strip()


def _indent(line: bytes) -> int:
    """Columns before the text."""
    margin = line[: len(line) - len(line.lstrip(b" \t"))]
    return len(margin) + margin.count(b"\t") * (TAB_WIDTH - 1)
