"""The tool ``read_file``: lines of a file with their numbers, either a slice or a block of code."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from execsrv.session.environment import ExecutorFileSystem
from execsrv.session.tools.indentation import BlockOptions, find_block
from execsrv.session.tools.result import ToolFault, ToolResult, file_faults
from execsrv.session.tools.text import shown

#: What the model is told of an argument that is out of its bounds.
REFUSALS = {
    "file_path": "file_path must be an absolute path",
    "offset": "offset must be a 1-indexed line number",
    "limit": "limit must be greater than zero",
    "anchor_line": "anchor_line must be a 1-indexed line number",
    "max_lines": "max_lines must be greater than zero",
}

Mode: TypeAlias = Literal["slice", "indentation"]


def read_file(
    file_system: ExecutorFileSystem,
    file_path: str,
    offset: int = 1,
    limit: int = 2000,
    mode: Mode = "slice",
    indentation: Mapping[str, Any] | None = None,
) -> ToolResult:
    """Lines of a file as ``L12: text``, without their ends, cut at LONGEST_SHOWN bytes.

    offset: the number of the first line, counted from 1. limit: how many lines at most.
    mode: ``slice`` takes what follows ``offset``, ``indentation`` the block that ``indentation``, the fields of
    BlockOptions, describes.

    Raises ToolFault when the file can't be read or has no such line.
    """
    with file_faults("failed to read file"):
        content = file_system.read_file(file_path)
    if mode == "slice":
        return _numbered(_slice(content, offset, limit), offset)
    lines = [_without_end(line) for line in io.BytesIO(content)]
    block = find_block(lines, offset, limit, BlockOptions(**(indentation or {})))
    return _numbered(lines[block.start : block.stop], block.start + 1)


def _slice(content: bytes, offset: int, limit: int) -> list[bytes]:
    lines = list(itertools.islice(io.BytesIO(content), offset - 1, offset - 1 + limit))
    if not lines:
        raise ToolFault("offset exceeds file length")
    return [_without_end(line) for line in lines]


def _without_end(line: bytes) -> bytes:
    return line.removesuffix(b"\n").removesuffix(b"\r")


def _numbered(lines: Iterable[bytes], first: int) -> ToolResult:
    numbered = (f"L{number}: {shown(line.decode(errors='replace'))}" for number, line in enumerate(lines, first))
    return ToolResult("\n".join(numbered))
