"""The same for longer: minutes of floods and churn, and how fast others are served meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from links import Program
from peer import OpenPeer, Peer
from proc import children, descriptors, eventually, is_alive, resident_bytes

pytestmark = pytest.mark.soak

MAX_SERVER_BYTES = 150_000_000

#: How soon a request on another connection is answered, in seconds.
PROMPT = 0.1


def seconds_to_answer(peer: Peer) -> float:
    """How long the answer to a small request takes."""
    before = time.monotonic()
    peer.call("process/terminate", processId="nobody")
    return time.monotonic() - before


def test_a_client_that_does_not_read_for_90_seconds_is_not_cut_off(
    listen: Callable[..., Program], open_websocket: OpenPeer
) -> None:
    """Longer than a silent peer may live; the server stays small and answers others promptly."""
    server = listen()
    deaf, other = open_websocket(server).handshake(), open_websocket(server).handshake()
    process_id = deaf.start("yes")
    pid = deaf.event("process/started", process_id)["pid"]
    slowest = 0.0
    pause = threading.Event()
    for _ in range(90):
        slowest = max(slowest, seconds_to_answer(other))
        assert resident_bytes(server.pid) < MAX_SERVER_BYTES
        pause.wait(1)
    assert is_alive(pid)
    assert deaf.call("process/terminate", processId=process_id) == {"running": True}
    deaf.finish(process_id)
    assert slowest < PROMPT


def test_others_are_served_promptly_while_a_client_takes_all_it_gets(
    listen: Callable[..., Program], open_websocket: OpenPeer
) -> None:
    """A flood that is read as fast as it comes keeps the server busy, and yet nobody waits long."""
    server = listen()
    greedy, other = open_websocket(server).handshake(), open_websocket(server).handshake()
    greedy.start("cat", "/dev/zero", processId="flood")
    over = threading.Event()

    def take() -> None:
        while not over.is_set():
            greedy.receive()
            greedy.transcript.clear()

    taking = threading.Thread(target=take)
    taking.start()
    waits = sorted(seconds_to_answer(other) for _ in range(2000))
    over.set()
    taking.join()
    assert waits[len(waits) * 99 // 100] < PROMPT


def test_ten_thousand_processes_leave_nothing(listen: Callable[..., Program], open_websocket: OpenPeer) -> None:
    """Started and terminated at once, a hundred at a time; memory does not grow with them."""
    server = listen("--exited-retention-ms", "0")
    peer = open_websocket(server).handshake()
    sizes, counts = [], []
    for _ in range(100):
        started = []
        for _ in range(100):
            _, process_id = peer.request_start("true")
            started.append((process_id, peer.request("process/terminate", processId=process_id)))
        for process_id, terminate in started:
            peer.result(terminate)
            peer.finish(process_id)
        peer.leave_nothing()
        sizes.append(resident_bytes(server.pid))
        counts.append(descriptors(server.pid))
    assert eventually(lambda: not children(server.pid))
    assert sizes[-1] < sizes[10] + 20_000_000
    assert counts[-1] <= counts[10]
