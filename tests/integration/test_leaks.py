"""The end of a connection, or of the server, leaves no process, no zombie and no descriptor behind."""

from __future__ import annotations

import os
import signal
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from endings import gone
from links import Program
from peer import OpenPeer, Peer
from proc import children, descriptors, eventually, is_alive

#: A connection's processes: pipes, a terminal, jobs of an interactive shell, one that floods, one that has ended.
BUSY: list[tuple[list[str], dict[str, Any]]] = [
    (["cat"], {"pipeStdin": True}),
    (["sh", "-c", "trap '' HUP TERM INT; sleep 1000 & sleep 1000"], {"tty": True}),
    (["bash", "--norc", "-ic", "sleep 1000 & sleep 1000"], {"tty": True}),
    (["yes"], {}),
    (["sh", "-c", "sleep 1000 & echo done"], {}),
]


def start_busy(peer: Peer) -> list[int]:
    """Start all of them; their pids."""
    started = [peer.request_start(*argv, **params)[1] for argv, params in BUSY]
    return [peer.event("process/started", process_id)["pid"] for process_id in started]


def say_goodbye(peer: Peer) -> None:
    """Close as the protocol of websockets wants it."""
    peer.close()


def shut_down(peer: Peer) -> None:
    """End both directions without a word."""
    peer.link.connection.socket.shutdown(socket.SHUT_RDWR)  # type: ignore[attr-defined]


def reset(peer: Peer) -> None:
    """Throw the connection away, in the middle of a message."""
    sock = peer.link.connection.socket  # type: ignore[attr-defined]
    sock.sendall(bytes([0x81, 0xFE]))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.shutdown(socket.SHUT_RDWR)


ENDS = [say_goodbye, shut_down, reset]


@pytest.fixture
def watched(listen: Callable[..., Program], open_websocket: OpenPeer) -> Iterator[tuple[Program, Callable[[], bool]]]:
    """A server that has worked once, and a test whether it is as bare as it was then."""
    server = listen()
    first = open_websocket(server).handshake()
    first.call("fs/getMetadata", path="/")
    first.run("true", tty=True)
    first.close()
    assert eventually(lambda: not children(server.pid))
    bare = descriptors(server.pid) - connections_of(server.pid)
    yield server, lambda: not children(server.pid) and descriptors(server.pid) <= bare


def connections_of(pid: int) -> int:
    """How many TCP connections, besides the listener, a process has."""
    inodes = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    with open(f"/proc/{pid}/net/tcp") as table:
        rows = [line.split() for line in table.readlines()[1:]]
    return sum(f"socket:[{row[9]}]" in inodes and row[3] != "0A" for row in rows)


def end_connections(server: Program, open_websocket: OpenPeer, count: int) -> list[int]:
    """Open so many connections one after the other, each with busy processes, and end each in one of the ways."""
    pids: list[int] = []
    for number in range(count):
        peer = open_websocket(server).handshake()
        pids += start_busy(peer)
        ENDS[number % len(ENDS)](peer)
    return pids


def test_50_connections_leave_nothing(watched: tuple[Program, Callable[[], bool]], open_websocket: OpenPeer) -> None:
    """However they end."""
    server, is_bare = watched
    pids = end_connections(server, open_websocket, 50)
    assert eventually(is_bare), (children(server.pid), descriptors(server.pid))
    assert not any(is_alive(pid) for pid in pids)


@pytest.mark.soak
def test_500_connections_leave_nothing(watched: tuple[Program, Callable[[], bool]], open_websocket: OpenPeer) -> None:
    """However they end."""
    server, is_bare = watched
    pids = end_connections(server, open_websocket, 500)
    assert eventually(is_bare), (children(server.pid), descriptors(server.pid))
    assert not any(is_alive(pid) for pid in pids)


def test_handshakes_that_fail_leave_nothing(watched: tuple[Program, Callable[[], bool]]) -> None:
    """Refused ones, cut ones, and those that say nothing."""
    server, is_bare = watched
    host, port = server.url.removeprefix("ws://").split(":")
    for text in (b"GET / HTTP/1.1\r\n\r\n", b"nonsense\r\n\r\n", b"GET /", b"") * 10:
        with socket.create_connection((host, int(port))) as sock:
            sock.sendall(text)
    assert eventually(is_bare), descriptors(server.pid)


def test_processes_leave_nothing_while_the_connection_goes_on(
    watched: tuple[Program, Callable[[], bool]], open_websocket: OpenPeer
) -> None:
    """Closed ones are reaped and their descriptors gone, failed starts too."""
    server, _ = watched
    peer = open_websocket(server).handshake()
    before = descriptors(server.pid)
    for number in range(60):
        peer.run("true", tty=number % 2 == 0, pipeStdin=True)
        peer.refused_start("/no/such", tty=number % 2 == 0)
    assert eventually(lambda: not children(server.pid) and descriptors(server.pid) <= before)


def test_daemons_survive_the_end_of_their_connection(open_websocket: OpenPeer) -> None:
    """Those that gave up the streams of a process that is closed; anything else of the session is killed."""
    peer = open_websocket().handshake()
    daemon = int(peer.run("sh", "-c", "sleep 1000 </dev/null >/dev/null 2>&1 & echo $!").stdout)
    holder_id = peer.start("sh", "-c", "sleep 1000 & echo $!")
    holder = int(peer.wait_for_output(holder_id, b"\n"))
    peer.event("process/exited", holder_id)
    try:
        peer.close()
        assert gone(holder) and is_alive(daemon)
    finally:
        os.kill(daemon, signal.SIGKILL)


# ---- the end of stdin ----------------------------------------------------------------------------------------------


def test_at_the_end_of_stdin_everything_is_answered_and_told(open_stdio: OpenPeer) -> None:
    """What was read before is still started; all are killed and told of; exit 0, also with a grace configured."""
    peer = open_stdio("--shutdown-grace-ms", "60000").handshake()
    started = [peer.request_start("sh", "-c", "trap '' TERM; sleep 1000", tty=number % 2 == 0) for number in range(20)]
    missing = peer.request("fs/readFile", path="/no/such")
    peer.link.end_input()  # type: ignore[attr-defined]
    peer.end()
    for id, process_id in started:
        assert peer.result(id) == {"processId": process_id}
        exited = peer.finish(process_id).exited
        assert (exited["exitCode"], exited["reason"]) == (137, "connectionClosed")
    assert peer.error(missing)["code"] == -32004
    assert peer.program.wait() == 0


def test_at_the_end_of_stdin_those_who_hold_the_streams_die(open_stdio: OpenPeer) -> None:
    """And the server ends, though a reader of its output is slow."""
    peer = open_stdio().handshake()
    pids = start_busy(peer)
    exited_id = peer.start("sh", "-c", "sleep 1000 & echo $!")
    holder = int(peer.wait_for_output(exited_id, b"\n"))
    peer.link.end_input()  # type: ignore[attr-defined]
    peer.end()
    assert peer.program.wait() == 0
    assert not any(is_alive(pid) for pid in [*pids, holder])


def test_waiting_requests_are_answered_at_the_end_of_stdin(open_stdio: OpenPeer) -> None:
    """A read that waits, a write that is stuck."""
    peer = open_stdio().handshake()
    process_id = peer.start("sleep", "1000", pipeStdin=True)
    read = peer.request("process/read", processId=process_id, waitMs=86_400_000)
    write = peer.request("process/write", processId=process_id, chunk="AAAA" * 100_000)
    peer.link.end_input()  # type: ignore[attr-defined]
    peer.end()
    assert peer.result(read)["exited"] is True
    assert peer.error(write)["data"]["kind"] == "stdinClosed"


def test_a_server_whose_output_nobody_reads_ends_with_its_input(open_stdio: OpenPeer) -> None:
    """A flood that can't be sent keeps neither the server nor the process."""
    peer = open_stdio().handshake()
    pid = peer.event("process/started", peer.start("yes"))["pid"]
    peer.link.end_input()  # type: ignore[attr-defined]
    assert peer.program.wait() == 0
    assert gone(pid)
