"""Bytes of files and names of entries as text for a model."""

from __future__ import annotations

import re

#: Longest line of a file, and longest name of an entry, that is shown; more is cut off. Bytes of UTF-8.
LONGEST_SHOWN = 500

_SURROGATE = re.compile("[\ud800-\udfff]")


def shown(text: str) -> str:
    """``text`` without lone surrogates, which stand for what is not UTF-8, cut where a character ends."""
    encoded = well_formed(text).encode()
    return encoded[:LONGEST_SHOWN].decode(errors="ignore")


def well_formed(text: str) -> str:
    """``text`` with each lone surrogate replaced, so that it can be sent."""
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)
