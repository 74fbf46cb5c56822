"""Does a connection, a process or a chunk cost the same, however many there are?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from statistics import median

from .bench import Bench, Family, Samples
from .memory import idle_kib
from .peer import Peer
from .rows import Curve
from .servers import Server

_CONNECTIONS = (100, 250, 500, 1000)
_PROCESSES = (100, 500, 1000, 2000)
_CHUNKS = (2500, 5000, 10_000, 20_000)

_CONNECTION_MEMORY = Curve("memory per connection", "KiB", "connections", _CONNECTIONS)
_CONNECTION_TIME = Curve("connecting, to the first answer", "ms", "connections", _CONNECTIONS)
_CONNECTION_ANSWER = Curve("getMetadata beside them", "ms", "connections", _CONNECTIONS)
_PROCESS_MEMORY = Curve("memory per process", "KiB", "processes", _PROCESSES)
_PROCESS_TIME = Curve("start answer", "ms", "processes", _PROCESSES)
_PROCESS_ANSWER = Curve("getMetadata beside them", "ms", "processes", _PROCESSES)
_CHUNK_CPU = Curve("CPU per chunk", "ms", "chunks", _CHUNKS)

CURVES = [
    *(_CONNECTION_MEMORY, _CONNECTION_TIME, _CONNECTION_ANSWER),
    *(_PROCESS_MEMORY, _PROCESS_TIME, _PROCESS_ANSWER),
    _CHUNK_CPU,
]


def measure(bench: Bench) -> Samples:
    """See CURVES."""
    return {**_connections(bench), **_processes(bench), **_chunks(bench)}


def _connections(bench: Bench) -> Samples:
    samples: Samples = {}
    with bench.server(for_crowds=True) as server, Peer(server) as peer, ExitStack() as stack:
        memory = idle_kib(server)
        for before, count in _steps(bench, _CONNECTIONS):
            taken = [_timed_connection(server, stack) for _ in range(before, count)]
            memory, grown = idle_kib(server), memory
            samples[_CONNECTION_MEMORY.key(count)] = (memory - grown) / (count - before)
            samples[_CONNECTION_TIME.key(count)] = median(taken)
            samples[_CONNECTION_ANSWER.key(count)] = _metadata(peer)
    return samples


def _processes(bench: Bench) -> Samples:
    samples: Samples = {}
    with bench.server(for_crowds=True) as server, Peer(server) as peer:
        peer.start("first", ["/bin/true"])
        peer.wait_closed("first")
        memory = idle_kib(server)
        for before, count in _steps(bench, _PROCESSES):
            taken = [peer.start(f"{number}", ["sleep", "1000"]) * 1000 for number in range(before, count)]
            memory, grown = idle_kib(server), memory
            samples[_PROCESS_MEMORY.key(count)] = (memory - grown) / (count - before)
            samples[_PROCESS_TIME.key(count)] = median(taken)
            samples[_PROCESS_ANSWER.key(count)] = _metadata(peer)
    return samples


def _chunks(bench: Bench) -> Samples:
    samples: Samples = {}
    with bench.server() as server, Peer(server) as peer:
        peer.start("flood", ["cat", "/dev/zero"])
        used = server.cpu_seconds()
        for before, count in _steps(bench, _CHUNKS):
            while peer.outputs < count:
                peer.next()
            used, earlier = server.cpu_seconds(), used
            samples[_CHUNK_CPU.key(count)] = (used - earlier) / (count - before) * 1000
    return samples


def _steps(bench: Bench, counts: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Each count with the one before it; not all of them for a rough figure."""
    return pairwise((0, *counts[: bench.count(len(counts), 2)]))


def _timed_connection(server: Server, stack: ExitStack) -> float:
    """Connect until the stack's end; the milliseconds to the first answer."""
    begun = time.perf_counter()
    stack.enter_context(Peer(server))
    return (time.perf_counter() - begun) * 1000


def _metadata(peer: Peer) -> float:
    """Milliseconds to an answer."""
    return median(peer.timed(peer.metadata_request()) for _ in range(50)) * 1000


FAMILY = Family("growth", [], measure)
