"""Files, whole, and a large directory."""

from __future__ import annotations

import os
from pathlib import Path
from statistics import median

import pybase64

from .bench import MIB, Bench, Family, Samples
from .peer import Peer
from .receiver import PeerError
from .rows import codex, exactly, high, low

_SIZES = {"1 KiB": 1024, "1 MiB": MIB, "32 MiB": 32 * MIB}
_ENTRIES = 10_000

ROWS = [
    *(
        row
        for method in ("readFile", "writeFile")
        for row in (
            low(f"{method} 1 KiB", f"{method}, 1 KiB", "ms", codex(1)),
            high(f"{method} 1 MiB", f"{method}, 1 MiB", "MB/s", codex(1)),
            high(f"{method} 32 MiB", f"{method}, 32 MiB", "MB/s", codex(1)),
        )
    ),
    low("files peak", "peak memory for 32 MiB", "MiB", codex(1)),
    exactly(0, "files wrong", "files read or written wrongly"),
    low("directory", "readDirectory of 10,000", "ms", codex(1)),
]


def measure(bench: Bench) -> Samples:
    """See ROWS."""
    samples: Samples = {"files wrong": 0}
    counts = {"1 KiB": bench.count(100, 20), "1 MiB": bench.count(12, 4), "32 MiB": bench.count(3, 1)}
    with bench.server() as server, Peer(server) as peer:
        for name, size in _SIZES.items():
            path = bench.workspace / name
            if not path.exists():
                path.write_bytes(os.urandom(size))
            for method, request in (("readFile", _read), ("writeFile", _write)):
                seconds = median([request(peer, path) for _ in range(counts[name] + 1)][1:])
                samples[f"{method} {name}"] = size / seconds / 1e6 if size >= MIB else seconds * 1000
            samples["files wrong"] += _is_wrong(peer, path)
        samples["files peak"] = server.peak_kib() / 1024
        samples["directory"] = _directory(peer, bench.workspace / "directory", bench.count(5, 2))
    return samples


def _read(peer: Peer, path: Path) -> float:
    """Read a file; the seconds that it took."""
    return peer.timed(peer.request("fs/readFile", {"path": peer.spec.path(str(path))}))


def _write(peer: Peer, path: Path) -> float:
    """Write its content to its copy; the seconds that it took."""
    content = pybase64.b64encode(path.read_bytes()).decode()
    params = {"path": peer.spec.path(str(_copy(path))), "dataBase64": content}
    return peer.timed(peer.request("fs/writeFile", params))


def _copy(path: Path) -> Path:
    return path.with_suffix(".copy")


def _is_wrong(peer: Peer, path: Path) -> bool:
    """Is what is read, or what was written, not the file's content?"""
    read = peer.call("fs/readFile", {"path": peer.spec.path(str(path))})
    content = path.read_bytes()
    return not pybase64.b64decode(read["dataBase64"]) == content == _copy(path).read_bytes()


def _directory(peer: Peer, path: Path, count: int) -> float:
    """Milliseconds to list a large directory."""
    if not path.exists():
        path.mkdir()
        for number in range(_ENTRIES):
            (path / f"file-{number:05}.txt").touch()
    params = {"path": peer.spec.path(str(path))}
    listed = len(peer.call("fs/readDirectory", params)["entries"])
    if listed != _ENTRIES:
        raise PeerError(f"listed {listed} entries instead of {_ENTRIES}")
    return median(peer.timed(peer.request("fs/readDirectory", params)) for _ in range(count)) * 1000


FAMILY = Family("files", ROWS, measure)
