"""Twenty thousand processes over five connections: afterwards the server is what it was.

EXECSRV_SOAK_PROCESSES sets another number.
"""

from __future__ import annotations

import base64
import dataclasses
import itertools
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from links import Program
from peer import OpenPeer, Peer
from proc import children, descriptors, eventually, resident_bytes

pytestmark = pytest.mark.soak

PROCESSES = int(os.environ.get("EXECSRV_SOAK_PROCESSES", "20000"))
CONNECTIONS = 5

#: Processes of a connection at one time.
BATCH = 20

#: What a server may have grown by: memory that was freed need not go back to the system.
SLACK_BYTES = 20_000_000

#: The server, which tells the number of its greenlets when it gets SIGUSR2.
COUNTED_SERVER = """
import gc, greenlet, signal, sys
from execsrv.cli import main

def tell(number, frame):
    count = sum(isinstance(thing, greenlet.greenlet) and not thing.dead for thing in gc.get_objects())
    print("greenlets", count, file=sys.stderr, flush=True)

signal.signal(signal.SIGUSR2, tell)
main()
"""

SLEEPER = ["sleep", "1000"]
STUBBORN = ["sh", "-c", "trap '' TERM; sleep 1000 & wait; wait"]

#: What is started, with which params, how it is ended, and the reasons that are right.
KINDS: list[tuple[list[str], dict[str, Any], str | None, set[str]]] = [
    (["true"], {}, None, {"exited"}),
    (["sh", "-c", "seq 1 3000; echo err >&2; exit 3"], {"tty": True}, None, {"exited"}),
    (["sh", "-c", "seq 1 3000; echo err >&2; exit 3"], {"drainTimeoutMs": 1000}, None, {"exited"}),
    (["cat"], {"pipeStdin": True}, "feed", {"exited"}),
    (["cat"], {"tty": True}, "feed", {"exited"}),
    (SLEEPER, {}, "force", {"terminated"}),
    (SLEEPER, {"tty": True}, "force", {"terminated"}),
    (["yes"], {"windowBytes": 10_000}, "force", {"terminated"}),
    (["sh", "-c", "sleep 1000 & wait"], {}, "graceful", {"terminated"}),
    (STUBBORN, {"tty": True}, "graceful", {"terminated"}),
    (SLEEPER, {"timeoutMs": 50}, None, {"timeout"}),
    (SLEEPER, {"timeoutMs": 50, "tty": True}, None, {"timeout"}),
    (SLEEPER, {"tty": True}, "signal", {"signaled"}),
    (["setsid", "-w", *SLEEPER], {}, "force", {"terminated"}),
]


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a server has."""

    descriptors: int
    threads: int
    greenlets: int
    children: int
    resident_bytes: int

    @classmethod
    def of(cls, server: Program) -> Footprint:
        """What it has now."""
        pid = server.pid
        threads = len(os.listdir(f"/proc/{pid}/task"))
        return cls(descriptors(pid), threads, greenlets(server), len(children(pid)), resident_bytes(pid))


def greenlets(server: Program) -> int:
    """How many greenlets it has."""
    told = server.log.count("greenlets")
    os.kill(server.pid, signal.SIGUSR2)
    assert eventually(lambda: server.log.count("greenlets") > told)
    return int(server.log.rstrip().rpartition("greenlets ")[2])


def end(peer: Peer, process_id: str, way: str | None) -> int | None:
    """Ask for a process's end; the id of the request."""
    if way == "feed":
        peer.request("process/write", processId=process_id, chunk=base64.b64encode(b"line\n").decode())
        return peer.request("process/closeStdin", processId=process_id)
    if way == "signal":
        return peer.request("process/signal", processId=process_id, signal="kill")
    if way == "graceful":
        mode = {"graceful": {"timeoutMs": 100}}
        return peer.request("process/terminate", processId=process_id, mode=mode)
    return peer.request("process/terminate", processId=process_id) if way else None


def run_batch(peer: Peer, numbers: list[int]) -> None:
    """Start a process for each number, end them, and see that all is told."""
    started = []
    for number in numbers:
        argv, params, way, reasons = KINDS[number % len(KINDS)]
        _, process_id = peer.request_start(*argv, **params)
        started.append((process_id, end(peer, process_id, way), reasons))
    for process_id, request, reasons in started:
        if request is not None:
            peer.result(request)
        exited = peer.finish(process_id).exited
        assert exited["reason"] in reasons, exited
    peer.leave_nothing()


def run(peer: Peer, count: int) -> None:
    """Run so many processes over a connection."""
    for begin in range(0, count, BATCH):
        run_batch(peer, list(range(begin, min(count, begin + BATCH))))


def run_on_all(peers: list[Peer], count: int) -> None:
    """Run so many processes over each connection, all at the same time."""
    with ThreadPoolExecutor(len(peers)) as pool:
        for done in [pool.submit(run, peer, count) for peer in peers]:
            done.result()


def watch(server: Program, over: threading.Event) -> Footprint:
    """The most of everything that a server has until it is over."""
    most = Footprint.of(server)
    for _ in itertools.takewhile(lambda _: not over.wait(1), itertools.count()):
        now = Footprint.of(server)
        most = Footprint(*(max(a, b) for a, b in zip(values(most), values(now), strict=True)))
    return most


def values(footprint: Footprint) -> list[int]:
    """Its numbers."""
    return list(dataclasses.astuple(footprint))


def test_twenty_thousand_processes_leave_nothing(
    listen: Callable[..., Program], open_websocket: OpenPeer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither descriptors, threads, greenlets, zombies nor memory."""
    server = listen("--exited-retention-ms", "0", command=[sys.executable, "-c", COUNTED_SERVER])
    peers = [open_websocket(server).handshake() for _ in range(CONNECTIONS)]
    run_on_all(peers, len(KINDS) * 5)  # what is made once and kept is there then
    before, over = Footprint.of(server), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(watch, server, over)
        try:
            run_on_all(peers, PROCESSES // CONNECTIONS)
        finally:
            over.set()
    assert eventually(lambda: not children(server.pid))
    after = Footprint.of(server)
    with capsys.disabled():
        print(f"\n{PROCESSES} processes\nbefore {before}\nmost   {watching.result()}\nafter  {after}")
    assert after.descriptors <= before.descriptors and after.threads <= before.threads
    assert after.greenlets <= before.greenlets
    assert after.children == 0
    assert after.resident_bytes < before.resident_bytes + SLACK_BYTES
