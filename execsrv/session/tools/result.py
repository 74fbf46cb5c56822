"""What a tool gives back: its result, or words for what kept it from one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What the model is told about a call.

    text: what the tool found, or, without success, what was wrong.
    image_url: an image to be shown besides, as a ``data:`` URL (RFC 2397).
    """

    text: str
    success: bool = True
    image_url: str | None = None


class ToolFault(Exception):
    """A tool has no result; the words are for the model."""


@contextlib.contextmanager
def file_faults(failure: str) -> Iterator[None]:
    """Tell what keeps a block from its files as a ToolFault, worded ``FAILURE: what the system says``.

    A ValueError is about the path, for instance one with a zero byte.
    """
    try:
        yield
    except (OSError, ValueError) as error:
        raise ToolFault(f"{failure}: {getattr(error, 'strerror', None) or error}") from error
