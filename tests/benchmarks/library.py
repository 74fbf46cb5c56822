"""What our own client costs, beside the plain one on the same server."""

from __future__ import annotations

import time
from statistics import median

from execsrv import ExecServerClient

from .bench import MIB, Bench, Family, Samples
from .flows import zeros
from .peer import ENVIRONMENT, Peer
from .rows import exactly, high, low
from .starting import TRUE, life

ROWS = [
    low("client run", "our client: run(true) beyond the server's own time", "ms", 1.5),
    high("client communicate", "our client: 256 MiB through communicate(), part of the plain rate", "", 0.6),
    exactly(0, "client lost", "our client: bytes lost"),
]


def measure(bench: Bench) -> Samples:
    """See ROWS."""
    size = bench.count(256, 64) * MIB
    with bench.server() as server, ExecServerClient.connect_websocket(server.url) as client:
        ours, own = [], []
        with Peer(server) as peer:
            for number in range(bench.count(60, 15)):
                own.append(life(peer, f"{number}")[1] * 1000)
                begun = time.perf_counter()
                client.run(TRUE, cwd="/tmp", env=ENVIRONMENT)
                ours.append((time.perf_counter() - begun) * 1000)
        plain = zeros(server, size).megabytes_per_second
        begun = time.perf_counter()
        stdout, _ = client.start(["head", "-c", str(size), "/dev/zero"]).communicate()
        rate = size / (time.perf_counter() - begun) / 1e6
    lost = size - len(stdout)
    return {"client run": median(ours) - median(own), "client communicate": rate / plain, "client lost": lost}


FAMILY = Family("library", ROWS, measure, is_ours=True)
