"""How soon a process has started and is over, and how many at once."""

from __future__ import annotations

import os
import time
from statistics import median

from .bench import Bench, Family, Samples
from .peer import Peer
from .rows import codex, exactly, floor, high, low

KINDS = {"pipes": False, "tty": True}
TRUE = ["/bin/true"]

#: Prints ten lines in a second, without a child of its own; of the FIFO that is its argument nothing ever comes.
_LINE = "a line of thirty-two characters"
_TEN_LINES = f'exec 3<>"$0"; for n in 1 2 3 4 5 6 7 8 9 10; do echo "{_LINE}"; read -rt 0.1 -u 3; done'

#: How many starts are on their way at most. (Codex's server stops for good with more than some 128 unanswered.)
_BURST, _CROWD_DEPTH = 32, 64
_CROWD = 200

ROWS = [
    *(
        row
        for kind in KINDS
        for row in (
            low(f"start {kind}", f"start answer, {kind}", "ms", codex(1 / 8), floor(2)),
            low(f"closed {kind}", f"start to closed, {kind}", "ms", codex(1 / 25), floor(2)),
            low(f"quickack {kind}", f"start to closed, {kind}, acknowledged at once", "ms", codex(1 / 6), floor(2)),
            high(f"burst {kind}", f"burst of 32 starts, {kind}", "1/s", codex(6)),
        )
    ),
    low("crowd", "200 processes of 1 s at once on one connection", "s", 1.4),
    exactly(0, "crowd lost", "200 processes at once: bytes lost"),
    low("start-up", "start-up of the server to its first answer", "ms", 150),
]


def measure(bench: Bench) -> Samples:
    """See ROWS."""
    samples = {"start-up": _start_up(bench), **_crowd(bench)}
    for kind, tty in KINDS.items():
        with bench.server() as server:
            with Peer(server) as peer:
                samples[f"start {kind}"], samples[f"closed {kind}"] = _lives(peer, bench.count(40, 10), tty)
                samples[f"burst {kind}"] = _burst(peer, bench.count(160, 64), tty)
            with Peer(server, acknowledges_at_once=True) as peer:
                _, samples[f"quickack {kind}"] = _lives(peer, bench.count(40, 10), tty)
    return samples


def life(peer: Peer, process_id: str, tty: bool = False) -> tuple[float, float]:
    """Run a process; the seconds until its start was answered, and until it was closed."""
    id, data = peer.start_request(process_id, TRUE, tty)
    begun = time.perf_counter()
    peer.send(data)
    peer.answer(id)
    answered = time.perf_counter()
    peer.wait_closed(process_id)
    return answered - begun, time.perf_counter() - begun


def _lives(peer: Peer, count: int, tty: bool) -> tuple[float, float]:
    """The medians of ``life`` in milliseconds, without the first few."""
    for number in range(4):
        life(peer, f"first {number}", tty)
    answered, closed = zip(*(life(peer, f"life {number}", tty) for number in range(count)), strict=True)
    return median(answered) * 1000, median(closed) * 1000


def _burst(peer: Peer, count: int, tty: bool) -> float:
    """Processes a second, from start to closed."""
    requests = [peer.start_request(f"burst {number}", TRUE, tty) for number in range(count)]
    return count / peer.send_all(requests, _BURST, peer.count_closed)


def _crowd(bench: Bench) -> Samples:
    fifo = str(bench.workspace / "fifo")
    if not os.path.exists(fifo):
        os.mkfifo(fifo)
    with bench.server() as server, Peer(server) as peer:
        requests = [peer.start_request(f"{n}", ["/bin/bash", "-c", _TEN_LINES, fifo]) for n in range(_CROWD)]
        begun = time.perf_counter()
        peer.send_all(requests, _CROWD_DEPTH, peer.count_answers)
        while peer.count_closed() < _CROWD:
            peer.next()
        seconds = time.perf_counter() - begun
        return {"crowd": seconds, "crowd lost": _CROWD * 10 * (len(_LINE) + 1) - peer.output_bytes}


def _start_up(bench: Bench) -> float:
    """Milliseconds from the command to the first answer; one start goes before, to have it all in memory."""
    taken = []
    for _ in range(bench.count(4, 2)):
        begun = time.perf_counter()
        with bench.server() as server, Peer(server):
            taken.append(time.perf_counter() - begun)
    return median(taken[1:]) * 1000


FAMILY = Family("starting", ROWS, measure)
