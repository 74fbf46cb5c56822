"""Where the tests of sessions work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Workspace:
    """A directory. root: what a session calls it; place: where it really is, for the test to look."""

    root: Path
    place: Path

    def path(self, *names: str) -> str:
        """The session's path of something in it."""
        return str(self.root.joinpath(*names))
