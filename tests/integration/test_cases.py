"""Faults that users of such servers have met, and what is right instead."""

from __future__ import annotations

import base64
import hashlib
import os
import signal
import socket
import time
from collections.abc import Callable

import pytest
from endings import gone
from links import Program
from peer import OpenPeer, Peer
from proc import children, eventually, is_alive

from execsrv import ClosedError, ExecServerClient, TimeoutExpired


def kinds(peer: Peer, process_id: str) -> list[str]:
    """The kinds of what was told of a process, in order."""
    about = [m for m in peer.transcript if m.get("params", {}).get("processId") == process_id]
    return [message["method"].removeprefix("process/") for message in about]


# ---- output --------------------------------------------------------------------------------------------------------

NUMBERS = "".join(f"{number}\n" for number in range(1, 200_001)).encode()


def test_output_does_not_come_after_the_exit(peer: Peer, server: Program) -> None:
    """Who stops at the exit has all that the process wrote; the close is last. So does a caller that blocks."""
    process_id = peer.start("sh", "-c", "seq 1 200000; exit 7", tty=True)
    assert peer.event("process/exited", process_id)["exitCode"] == 7
    assert peer.output(process_id, "pty").replace(b"\r", b"") == NUMBERS
    peer.finish(process_id)
    assert kinds(peer, process_id)[-2:] == ["exited", "closed"]
    with ExecServerClient.connect_websocket(server.url) as client:
        result = client.run(["sh", "-c", "seq 1 200000; exit 7"])
    assert result.stdout == NUMBERS and result.returncode == 7


def test_a_cut_link_is_no_success(listen: Callable[..., Program]) -> None:
    """The server dies in the middle: the caller gets an error, never an exit code."""
    server = listen()
    with ExecServerClient.connect_websocket(server.url) as client:
        process = client.start(["sh", "-c", "seq 1 1000; exec sleep 1000"])
        assert (pid := process.pid)
        try:
            os.kill(server.pid, signal.SIGKILL)
            with pytest.raises(ClosedError):
                process.wait()
        finally:
            os.killpg(pid, signal.SIGKILL)


def test_binary_output_arrives_unchanged(peer: Peer) -> None:
    """The same million bytes; none of them is in the server's log."""
    process_id = peer.start("sh", "-c", "head -c 1000000 /dev/urandom | tee /dev/stderr")
    life = peer.finish(process_id)
    assert len(life.stdout) == 1_000_000
    assert hashlib.sha256(life.stdout).digest() == hashlib.sha256(life.stderr).digest()
    assert base64.b64encode(life.stdout)[:30].decode() not in peer.program.log and len(peer.program.log) < 10_000


# ---- who is left ---------------------------------------------------------------------------------------------------


def test_a_grandchild_that_holds_the_pipe_does_not_hold_up_the_exit(peer: Peer, server: Program) -> None:
    """The close comes after the drain timeout, incomplete; a terminate still reaches it before."""
    script = "sleep 300 & echo $!"
    before = time.monotonic()
    process_id = peer.start("sh", "-c", script, drainTimeoutMs=300)
    peer.event("process/exited", process_id)
    assert time.monotonic() - before < 5
    life = peer.finish(process_id)
    assert life.closed["outputComplete"] is False and is_alive(int(life.stdout))
    os.kill(int(life.stdout), signal.SIGKILL)
    held = peer.start("sh", "-c", script)
    peer.event("process/exited", held)
    assert peer.call("process/terminate", processId=held) == {"running": False}
    life = peer.finish(held)
    assert life.closed["outputComplete"] is True and gone(int(life.stdout))
    with ExecServerClient.connect_websocket(server.url) as client:
        assert client.run(["sh", "-c", "sleep 300 & echo hi"], drain_timeout=0.2).stdout == b"hi\n"


def test_a_dropped_connection_leaves_neither_orphan_nor_zombie(
    listen: Callable[..., Program], open_websocket: OpenPeer
) -> None:
    """Nothing is left under the server."""
    server = listen()
    peer = open_websocket(server).handshake()
    process_id = peer.start("sh", "-c", "sleep 100 & echo $!; sleep 1 & echo $!; wait")
    while peer.output(process_id).count(b"\n") < 2:
        peer.receive()
    pids = [peer.event("process/started", process_id)["pid"], *map(int, peer.output(process_id).split())]
    peer.link.connection.socket.shutdown(socket.SHUT_RDWR)  # type: ignore[attr-defined]
    assert all(gone(pid) for pid in pids)
    assert eventually(lambda: not children(server.pid))


def test_not_only_the_leader_dies(peer: Peer) -> None:
    """The child in the background, too."""
    process_id = peer.start("sh", "-c", "sleep 1000 & echo $!; sleep 1000")
    child = int(peer.wait_for_output(process_id, b"\n"))
    peer.call("process/terminate", processId=process_id)
    peer.finish(process_id)
    assert gone(child)


LISTENER = """
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        server.accept()
"""


def test_a_timeout_leaves_no_children(peer: Peer) -> None:
    """What listened refuses; the reason is told."""
    process_id = peer.start("sh", "-c", f"python3 -S -c '{LISTENER}' & wait", timeoutMs=1000)
    port = int(peer.wait_for_output(process_id, b"\n"))
    socket.create_connection(("127.0.0.1", port)).close()
    assert peer.event("process/exited", process_id)["reason"] == "timeout"
    peer.finish(process_id)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


@pytest.mark.soak
def test_ten_thousand_ends_at_the_start_hit_no_stranger(peer: Peer) -> None:
    """Each is told of to its end, with the right answer."""
    end_at_the_start(peer, 10_000)


def test_ends_at_the_start_hit_no_stranger(peer: Peer) -> None:
    """The same for a few."""
    end_at_the_start(peer, 300)


def end_at_the_start(peer: Peer, count: int) -> None:
    """Start and terminate at once: no error; not running means that it was over by itself."""
    for _ in range(count):
        start, process_id = peer.request_start("true")
        terminate = peer.request("process/terminate", processId=process_id)
        peer.result(start)
        running = peer.result(terminate)["running"]
        exited = peer.finish(process_id).exited
        assert exited["reason"] in (("terminated", "exited") if running else ("exited",))
        assert (exited["signal"], exited["exitCode"]) in [(None, 0), ("SIGKILL", 137)]
        peer.transcript.clear()


# ---- input ---------------------------------------------------------------------------------------------------------


def test_an_input_can_be_ended(peer: Peer) -> None:
    """Neither output nor status is lost."""
    process_id = peer.start("sort", pipeStdin=True)
    peer.call("process/write", processId=process_id, chunk=base64.b64encode(b"b\na\n").decode())
    peer.call("process/closeStdin", processId=process_id)
    life = peer.finish(process_id)
    assert life.stdout == b"a\nb\n" and life.exited["exitCode"] == 0


def test_no_input_is_an_empty_one(peer: Peer) -> None:
    """Who reads it ends at once."""
    life = peer.run("cat")
    assert life.stdout == b"" and life.exited["exitCode"] == 0


# ---- ends ----------------------------------------------------------------------------------------------------------


def test_what_has_just_finished_can_be_read(open_peer: OpenPeer) -> None:
    """Later an error tells when it ended and how, other than for an id that never was."""
    peer = open_peer("--exited-retention-ms", "1500").handshake()
    before = int(time.time() * 1000)
    process_id = peer.run("sh", "-c", "echo boom >&2; exit 3").exited["processId"]
    read = peer.call("process/read", processId=process_id)
    assert [(c["stream"], base64.b64decode(c["chunk"])) for c in read["chunks"]] == [("stderr", b"boom\n")]
    assert (read["exited"], read["exitCode"], read["closed"]) == (True, 3, True)
    assert eventually(lambda: not peer.call("process/list")["processes"])
    data = peer.refused("process/read", processId=process_id)["data"]
    assert (data["kind"], data["exitCode"]) == ("processForgotten", 3)
    assert before <= data["exitedAtMs"] <= time.time() * 1000
    never = peer.refused("process/read", processId="never")
    assert never["data"] == {"kind": "unknownProcess"}


@pytest.mark.parametrize("script, told", [("kill -9 $$", (137, "SIGKILL")), ("exit 137", (137, None))])
def test_a_signal_is_no_status(peer: Peer, script: str, told: tuple[int, str | None]) -> None:
    """Though the number is the same; a wait tells it as well."""
    exited = peer.run("sh", "-c", script).exited
    assert (exited["exitCode"], exited["signal"]) == told
    waited = peer.call("process/wait", processId=exited["processId"])
    assert (waited["exitCode"], waited["signal"]) == told


def test_a_timeout_keeps_the_output(server: Program) -> None:
    """It is in the exception; the process is gone."""
    with ExecServerClient.connect_websocket(server.url) as client:
        with pytest.raises(TimeoutExpired) as caught:
            client.run(["sh", "-c", "echo $$; sleep 10"], timeout=1)
    assert caught.value.output and gone(int(caught.value.output))


def test_a_terminal_has_its_size_from_the_start(peer: Peer) -> None:
    """And a usual one without."""
    assert peer.run("stty", "size", tty=True, size={"rows": 50, "cols": 200}).pty == b"50 200\r\n"
    assert peer.run("stty", "size", tty=True).pty == b"24 80\r\n"


# ---- secrets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [None, {}, {"inherit": "core"}, {"inherit": "none"}, {"exclude": ["X*"]}])
def test_the_servers_secrets_reach_no_child(open_stdio: OpenPeer, policy: dict[str, str] | None) -> None:
    """Nor the log, nor the list of processes."""
    secret = "0123456789abcdef"
    peer = open_stdio(env={**os.environ, "SERVICE_TOKEN": secret, "Api_Key": secret}).handshake()
    life = peer.run("env", envPolicy=policy)
    assert secret.encode() not in life.stdout + life.stderr
    assert secret not in str(peer.call("process/list")) and secret not in peer.program.log
