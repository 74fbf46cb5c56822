"""A server that orphans are handed to, as process 1 or as a child subreaper: it reaps them, and loses no status."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest
from endings import gone
from peer import OpenPeer, Peer
from proc import children, eventually, is_alive

#: Becomes a child subreaper (prctl(2), PR_SET_CHILD_SUBREAPER), gets an orphan, and then becomes the server.
LAUNCHER = """
import ctypes, os, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
subprocess.run(["sh", "-c", "true & true & exit"])
os.execv(sys.executable, [sys.executable, "-m", "execsrv"])
"""

NAMESPACE = ["unshare", "--pid", "--fork", "--mount-proc"]

#: Leaves two orphans behind: one that ends soon, one that ends when its input does.
ORPHANS = "(sleep 0.1 &) </dev/null >/dev/null 2>&1; (true &) </dev/null >/dev/null 2>&1; exit 7"


def can_unshare() -> bool:
    """Are we allowed to make a namespace of processes?"""
    if not shutil.which("unshare"):
        return False
    return subprocess.run([*NAMESPACE, "true"], capture_output=True, timeout=20).returncode == 0


@pytest.fixture
def subreaper(open_stdio: OpenPeer) -> Peer:
    """A peer of a server that is a child subreaper."""
    return open_stdio(command=[sys.executable, "-c", LAUNCHER]).handshake()


@pytest.fixture
def init(open_stdio: OpenPeer) -> Iterator[tuple[Peer, int]]:
    """A peer of a server that is process 1 of a namespace, and the server's pid outside."""
    if not can_unshare():
        pytest.skip("no permission to make a namespace of processes")
    peer = open_stdio(command=[*NAMESPACE, sys.executable, "-m", "execsrv"]).handshake()
    assert peer.run("sh", "-c", "echo $PPID").stdout == b"1\n"
    yield peer, children(peer.program.pid)[0]


def check_that_orphans_are_reaped(peer: Peer, server: int) -> None:
    """A hundred of them, among processes whose statuses all arrive."""
    started = [peer.request_start("sh", "-c", ORPHANS, tty=number % 2 == 0) for number in range(50)]
    for _, process_id in started:
        exited = peer.finish(process_id).exited
        assert (exited["exitCode"], exited["reason"]) == (7, "exited")
    assert eventually(lambda: not children(server)), children(server)


def test_a_subreaper_reaps_orphans(subreaper: Peer) -> None:
    """Also those that ended before it began to serve."""
    assert eventually(lambda: not children(subreaper.program.pid))
    check_that_orphans_are_reaped(subreaper, subreaper.program.pid)


def test_process_1_reaps_orphans(init: tuple[Peer, int]) -> None:
    """Nothing is left below it."""
    check_that_orphans_are_reaped(*init)


def test_a_process_that_is_held_open_keeps_its_status(subreaper: Peer) -> None:
    """Its zombie is ours until it is closed, whoever ends meanwhile."""
    process_id = subreaper.start("sh", "-c", "sleep 1000 & echo $!; exit 7")
    subreaper.event("process/exited", process_id)
    sleeper = int(subreaper.output(process_id))
    pid = subreaper.event("process/started", process_id)["pid"]
    check_descendants(subreaper, {pid, sleeper})
    assert subreaper.call("process/terminate", processId=process_id) == {"running": False}
    subreaper.finish(process_id)
    assert gone(sleeper) and eventually(lambda: not children(subreaper.program.pid))


def check_descendants(peer: Peer, wanted: set[int]) -> None:
    """Let orphans end; then exactly these are children of the server, which adopted some of them."""
    peer.run("sh", "-c", ORPHANS)
    assert eventually(lambda: set(children(peer.program.pid)) == wanted), children(peer.program.pid)


def test_the_end_of_process_1_leaves_nothing(init: tuple[Peer, int]) -> None:
    """Neither its processes nor what it has adopted."""
    peer, server = init
    peer.start("sh", "-c", "sleep 1000 & sleep 1000")
    peer.run("sh", "-c", "(sleep 1000 &) </dev/null >/dev/null 2>&1")
    assert eventually(lambda: len(children(server)) == 2)
    pids = children(server)
    peer.close()
    assert gone(server) and not any(is_alive(pid) for pid in pids)
    assert not os.path.exists(f"/proc/{server}")
