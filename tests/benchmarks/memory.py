"""What idle connections and processes cost, and what a client that does not read costs."""

from __future__ import annotations

import time
from contextlib import ExitStack

from .bench import Bench, Family, Samples, p95
from .peer import Peer
from .rows import low
from .servers import Server

#: So many connections, or processes, share what they cost together.
_CROWD = 100

#: Seconds for a server to come to rest before its memory is looked at.
_REST = 0.3

ROWS = [
    low("idle", "memory, idle", "MiB", 40),
    low("connection", "memory per idle connection", "KiB", 60),
    low("process", "memory per idle process", "KiB", 30),
    low("threads", f"threads more with {_CROWD} idle processes", "", 0),
    low("slow growth", "growth behind a client that does not read", "MiB", 4),
    low("slow p95", "p95 of getMetadata beside a client that does not read", "ms", 2),
]


def measure(bench: Bench) -> Samples:
    """See ROWS."""
    samples: Samples = {}
    with bench.server() as server, Peer(server):
        samples["idle"] = idle_kib(server) / 1024
        samples["connection"] = _connections(server)
    with bench.server() as server, Peer(server) as peer:
        samples["process"], samples["threads"] = _processes(server, peer)
    with bench.server() as server:
        samples |= _slow_reader(server, bench.count(2, 1))
    return samples


def idle_kib(server: Server) -> int:
    """Its memory after a moment of rest."""
    time.sleep(_REST)
    return server.resident_kib()


def _connections(server: Server) -> float:
    before = server.resident_kib()
    with ExitStack() as stack:
        for _ in range(_CROWD):
            stack.enter_context(Peer(server))
        return (idle_kib(server) - before) / _CROWD


def _processes(server: Server, peer: Peer) -> tuple[float, int]:
    """Memory in KiB per process, and threads for all of them; one process went before."""
    peer.start("first", ["/bin/true"])
    peer.wait_closed("first")
    before, threads = idle_kib(server), server.threads()
    for number in range(_CROWD):
        peer.start(f"{number}", ["sleep", "1000"])
    return (idle_kib(server) - before) / _CROWD, server.threads() - threads


def _slow_reader(server: Server, seconds: float) -> Samples:
    with Peer(server) as slow, Peer(server) as peer:
        for _ in range(20):
            peer.timed(peer.metadata_request())
        server.forget_peak()
        before = server.resident_kib()
        slow.send(slow.start_request("flood", ["cat", "/dev/zero"])[1])
        end, taken = time.perf_counter() + seconds, []
        while time.perf_counter() < end:
            taken.append(peer.timed(peer.metadata_request()) * 1000)
            time.sleep(0.005)
        return {"slow growth": (server.peak_kib() - before) / 1024, "slow p95": p95(taken)}


FAMILY = Family("memory", ROWS, measure)
