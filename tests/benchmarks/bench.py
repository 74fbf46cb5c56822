"""What a family of measurements gets, and what it gives."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from .rows import Row
from .servers import Server, Spec

MIB = 1024 * 1024

#: A figure for each row that could be measured, by its key.
Samples: TypeAlias = dict[str, float]


@dataclass(frozen=True)
class Bench:
    """One measurement of one server.

    workspace: a directory in memory for files, which the families may share.
    is_quick: whether a rough figure will do.
    """

    spec: Spec
    workspace: Path
    is_quick: bool

    def server(self, for_crowds: bool = False) -> Server:
        """A fresh server, to be used as a context."""
        return Server(self.spec, for_crowds)

    def count(self, full: int, quick: int) -> int:
        """How often, or how much."""
        return quick if self.is_quick else full


@dataclass(frozen=True)
class Family:
    """Rows that are measured together.

    measure: does it once, on servers that it starts; may raise PeerError and OSError.
    is_ours: whether it is only about our own server.
    """

    name: str
    rows: Sequence[Row]
    measure: Callable[[Bench], Samples]
    is_ours: bool = False


@contextmanager
def workspace() -> Iterator[Path]:
    """A directory in memory, if there is such a place, for as long as the context lasts."""
    in_memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="execsrv-benchmarks-", dir=in_memory) as path:
        yield Path(path)


def p95(figures: Sequence[float]) -> float:
    """What 95 of 100 figures do not exceed."""
    return sorted(figures)[max(0, -(-len(figures) * 95 // 100) - 1)]
