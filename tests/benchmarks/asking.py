"""Many small requests."""

from __future__ import annotations

from contextlib import suppress

from .bench import Bench, Family, Samples
from .peer import Peer
from .receiver import PeerError
from .rows import codex, exactly, high

#: So many requests are on their way; how many are sent in all, at least.
_DEPTHS = {1: 1500, 16: 5000, 64: 5000}

_AT_ONCE = 1000

#: After such a silence, in seconds, no more answers are expected.
_SILENCE = 2

ROWS = [
    *(high(f"rate {depth}", f"getMetadata per second, {depth} deep", "1/s", codex(1)) for depth in _DEPTHS),
    exactly(_AT_ONCE, "at once", "1,000 requests at once: answered"),
]


def measure(bench: Bench) -> Samples:
    """See ROWS."""
    samples: Samples = {}
    with bench.server() as server, Peer(server) as peer:
        _rate(peer, 300, 8)
        for depth, count in _DEPTHS.items():
            samples[f"rate {depth}"] = _rate(peer, bench.count(count, count // 5), depth)
    with bench.server() as server, Peer(server) as peer:
        samples["at once"] = _at_once(peer)
    return samples


def _rate(peer: Peer, count: int, depth: int) -> float:
    requests = [peer.metadata_request() for _ in range(count)]
    return count / peer.send_all(requests, depth, peer.count_answers)


def _at_once(peer: Peer) -> int:
    """How many of them are answered."""
    before = peer.count_answers()
    data = b"".join(peer.metadata_request()[1] for _ in range(_AT_ONCE))  # so little that no send need wait
    peer.be_patient_for(_SILENCE)
    peer.send(data)
    with suppress(PeerError):
        while peer.count_answers() - before < _AT_ONCE:
            peer.next()
    return peer.count_answers() - before


FAMILY = Family("asking", ROWS, measure)
