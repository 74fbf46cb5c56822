"""How soon an answer comes: an echo, and answers beside a flood of output."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from statistics import median

import pybase64

from .bench import Bench, Family, Samples, p95
from .peer import PATIENCE, Peer
from .receiver import BUFFER_BYTES
from .rows import codex, high, low

#: A slow link.
_LINK_BYTES_PER_SECOND = 16_000_000
_LINK_BUFFER_BYTES = 256 * 1024

#: How long a flood goes on before it counts, between two questions, and at most, in seconds.
_FLOOD_BEFORE, _FLOOD_BETWEEN, _FLOOD_LONGEST = 0.5, 0.004, 6.0

ROWS = [
    low("echo", "tty echo", "ms"),
    low("echo quickack", "tty echo, acknowledged at once", "ms", codex(1)),
    low("flooded start", "start answer on a flooded connection", "ms", 4),
    low("flooded metadata", "getMetadata on a flooded connection", "ms", 2),
    low("flooded p95", "p95 of both on a flooded connection", "ms", 15),
    low("beside start", "start answer beside a flooded connection", "ms", 4),
    low("beside metadata", "getMetadata beside a flooded connection", "ms", 2),
    low("beside p95", "p95 of both beside a flooded connection", "ms", 15),
    low("link start", "start answer on a flooded link of 16 MB/s", "ms", 60),
    low("link metadata", "getMetadata on a flooded link of 16 MB/s", "ms", 60),
    high("link flood", "the flood itself on the link of 16 MB/s, with base64", "MB/s"),
]


def measure(bench: Bench) -> Samples:
    """See ROWS."""
    samples: Samples = {}
    with bench.server() as server:
        with Peer(server) as peer:
            samples["echo"] = _echo(peer, bench.count(60, 12))
        with Peer(server, acknowledges_at_once=True) as peer:
            samples["echo quickack"] = _echo(peer, bench.count(60, 12))
    count = bench.count(60, 20)
    with bench.server() as server, Peer(server) as peer:
        samples |= _flooded("flooded", peer, peer, peer.read_for, count)
    with bench.server() as server, Peer(server) as flooded, Peer(server) as peer:
        samples |= _flooded("beside", flooded, peer, _Beside(peer, flooded).read_for, count)
    with bench.server() as server, Peer(server, buffer_bytes=_LINK_BUFFER_BYTES) as peer:
        samples |= _on_slow_link(peer, bench.count(20, 6))
    return samples


def _echo(peer: Peer, count: int) -> float:
    """Milliseconds from a write to its echo."""
    peer.start("cat", ["cat"], tty=True)
    chunk = pybase64.b64encode(b"x\n").decode()
    taken = []
    for number in range(count):
        params = {"processId": "cat", "chunk": chunk, "writeId": str(number + 1)}
        id, data = peer.request("process/write", params)
        seen = peer.output_bytes
        begun = time.perf_counter()
        peer.send(data)
        while peer.output_bytes == seen:
            peer.next()
        taken.append(time.perf_counter() - begun)
        peer.read_for(0.005)  # the answer, and what cat says to it
    return median(taken[2:]) * 1000


def _flooded(name: str, flooded: Peer, peer: Peer, read_for: Callable[[float], None], count: int) -> Samples:
    """Ask a peer while there is a flood on a connection, its own or another; ``read_for`` takes what comes."""
    flooded.start("flood", ["cat", "/dev/zero"])
    read_for(_FLOOD_BEFORE)
    starts, metadata = [], []
    deadline = time.perf_counter() + _FLOOD_LONGEST
    for number in range(count):
        starts.append(peer.start(f"{number}", ["/bin/true"]) * 1000)
        metadata.append(peer.timed(peer.metadata_request()) * 1000)
        read_for(_FLOOD_BETWEEN)
        if time.perf_counter() > deadline:
            break
    worst = p95(starts + metadata)
    return {f"{name} start": median(starts), f"{name} metadata": median(metadata), f"{name} p95": worst}


def _on_slow_link(peer: Peer, count: int) -> Samples:
    receiver = peer.receiver
    begun, before = time.perf_counter(), receiver.received_bytes

    def wait_for_link() -> None:
        due = begun + (receiver.received_bytes - before) / _LINK_BYTES_PER_SECOND
        time.sleep(max(0.0, due - time.perf_counter()))

    receiver.receive_bytes = 64 * 1024
    receiver.before_receive = wait_for_link
    samples = _flooded("link", peer, peer, peer.read_for, count)
    seconds = time.perf_counter() - begun
    del samples["link p95"]  # too few for it
    return {**samples, "link flood": (receiver.received_bytes - before) / seconds / 1e6}


class _Beside:
    """Throws away what comes to a flooded connection whenever another one has nothing to read."""

    def __init__(self, peer: Peer, flooded: Peer) -> None:
        self._peer = peer
        self._flooded = flooded.socket
        self._waste = bytearray(BUFFER_BYTES)
        self._poll = select.poll()
        for sock in (peer.socket, flooded.socket):
            self._poll.register(sock, select.POLLIN)
        peer.receiver.before_receive = self._wait

    def read_for(self, seconds: float) -> None:
        """As Peer's."""
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            if not self._peer.receiver.is_empty or self._wait(left):
                self._peer.next()

    def _wait(self, seconds: float = PATIENCE) -> bool:
        """Is there something to read for the peer within this time?"""
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            ready = {fd for fd, _ in self._poll.poll(left * 1000)}
            if self._peer.socket.fileno() in ready:
                return True
            if ready:
                self._flooded.recv_into(self._waste)
        return False


FAMILY = Family("latency", ROWS, measure)
