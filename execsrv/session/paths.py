"""What a path of a session must be."""

from __future__ import annotations

import os


def check_paths(*paths: str) -> None:
    """Raise ValueError unless all ``paths`` are absolute and such as a system can have."""
    for path in paths:
        if not os.path.isabs(path) or "\0" in path:
            raise ValueError(f"not an absolute path: {path!r}")
        os.fsencode(path)  # raises UnicodeEncodeError, which is a ValueError, for what no name consists of
