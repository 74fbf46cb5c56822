"""Much output of one process: how fast it comes, at what cost, and whether all of it does."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .bench import MIB, Bench, Family, Samples
from .peer import Peer
from .rows import codex, exactly, floor, high, low
from .servers import Server

_GIB = 1024 * MIB
_LINES = 100_000

ROWS = [
    high("bulk pipes", "256 MiB through pipes", "MB/s", codex(2.5), floor(0.75)),
    low("bulk pipes cpu", "256 MiB through pipes: CPU per GiB", "s", codex(1 / 2)),
    exactly(0, "bulk pipes lost", "256 MiB through pipes: bytes lost"),
    high("bulk tty", "64 MiB through a tty", "MB/s"),
    low("bulk tty cpu", "64 MiB through a tty: CPU per GiB", "s", codex(1)),
    exactly(0, "bulk tty lost", "64 MiB through a tty: bytes lost"),
    high("lines pipes", "100,000 short lines, pipes", "1,000/s", codex(1)),
    high("lines tty", "100,000 short lines, tty", "1,000/s", codex(1)),
    exactly(0, "lines pipes wrong", "100,000 short lines, pipes: bytes wrong or lost"),
    exactly(0, "lines tty wrong", "100,000 short lines, tty: bytes wrong or lost"),
]


@dataclass(frozen=True)
class Flow:
    """What the output of one process came to: from the start of the process to its closing."""

    size: int
    outputs: int
    seconds: float
    cpu_seconds: float

    @property
    def megabytes_per_second(self) -> float:
        """The speed of the payload."""
        return self.size / self.seconds / 1e6

    @property
    def cpu_per_gib(self) -> float:
        """The server's work, in seconds."""
        return self.cpu_seconds / self.size * _GIB


def measure(bench: Bench) -> Samples:
    """See ROWS."""
    samples: Samples = {}
    for kind, tty, size in (("pipes", False, bench.count(256, 64) * MIB), ("tty", True, bench.count(64, 8) * MIB)):
        with bench.server() as server:
            flow = zeros(server, size, tty)
            samples[f"bulk {kind}"] = flow.megabytes_per_second
            samples[f"bulk {kind} cpu"] = flow.cpu_per_gib
            samples[f"bulk {kind} lost"] = size - flow.size
            samples |= _lines(server, bench.workspace, kind, tty)
    return samples


def zeros(server: Server, size: int, tty: bool = False) -> Flow:
    """Let a process write so many zeros, after another has written some."""
    with Peer(server) as peer:
        _flow(server, peer, "first", ["head", "-c", str(MIB), "/dev/zero"], tty)
        return _flow(server, peer, "zeros", ["head", "-c", str(size), "/dev/zero"], tty)


def _flow(server: Server, peer: Peer, process_id: str, argv: Sequence[str], tty: bool) -> Flow:
    _, data = peer.start_request(process_id, argv, tty)
    before, outputs, used = peer.output_bytes, peer.outputs, server.cpu_seconds()
    begun = time.perf_counter()
    peer.send(data)
    peer.wait_closed(process_id)
    seconds = time.perf_counter() - begun
    return Flow(peer.output_bytes - before, peer.outputs - outputs, seconds, server.cpu_seconds() - used)


def _lines(server: Server, workspace: Path, kind: str, tty: bool) -> Samples:
    """Lines with a write(2) each, first for the time and then, all at once, for what they say."""
    path = workspace / "lines"
    if not path.exists():
        path.write_text("".join(f"line {number:08} abcdefghijklmnopq\n" for number in range(_LINES)))
    with Peer(server) as peer:
        argv = ["dd", f"if={path}", "bs=32", "status=none"]
        _flow(server, peer, "first", [*argv, "count=1000"], tty)
        seconds = _flow(server, peer, "lines", argv, tty).seconds
    with Peer(server, keeps_output=True) as peer:
        _flow(server, peer, "lines", ["cat", str(path)], tty)
        expected = path.read_bytes().replace(b"\n", b"\r\n" if tty else b"\n")
        return {f"lines {kind}": _LINES / seconds / 1000, f"lines {kind} wrong": _difference(peer.output, expected)}


def _difference(given: bytes | bytearray, expected: bytes) -> int:
    """How many bytes are wrong, missing or too many."""
    if given == expected:
        return 0
    wrong = sum(mine != its for mine, its in zip(given, expected, strict=False))
    return wrong + abs(len(given) - len(expected))


FAMILY = Family("flows", ROWS, measure)
