"""What holds back a fast process or a fast client, and what does not."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from links import Program
from peer import OpenPeer, Peer
from proc import eventually, peak_bytes, resident_bytes

KIB, MIB = 1024, 1024 * 1024
MAX_SERVER_BYTES = 150_000_000


def ack_all(peer: Peer, process_id: str) -> None:
    """Acknowledge what has come so far."""
    seqs = [message["params"]["seq"] for message in peer.transcript if message.get("method") == "process/output"]
    peer.notify("process/ack", processId=process_id, seq=max(seqs, default=0))


def receive_bytes(peer: Peer, process_id: str, wanted: int) -> int:
    """Receive until so many bytes of output have come; how many there are then."""
    while (size := len(peer.output(process_id))) < wanted:
        peer.receive()
    return size


def wait_until_stalled(pid: int) -> None:
    """Wait until a process has written nothing for a while (its ``wchar`` in proc_pid_io(5))."""
    seen: list[str] = []

    def is_stalled() -> bool:
        seen.append(Path(f"/proc/{pid}/io").read_text().splitlines()[1])
        return len(seen) > 10 and len(set(seen[-10:])) == 1

    assert eventually(is_stalled)


# ---- windows -------------------------------------------------------------------------------------------------------


def test_no_more_than_the_window_is_sent_beyond_the_last_ack(peer: Peer) -> None:
    """Answers and other processes pass; each ack lets as much follow as it covers."""
    window = 10_000
    process_id = peer.start("yes", windowBytes=window)
    for round in range(1, 5):
        assert receive_bytes(peer, process_id, round * window) == round * window
        for _ in range(3):
            assert peer.run("echo", "hi").stdout == b"hi\n"
        assert len(peer.output(process_id)) == round * window
        ack_all(peer, process_id)
    peer.call("process/terminate", processId=process_id)


def test_acks_are_cumulative_and_old_ones_change_nothing(peer: Peer) -> None:
    """Nor do those from the future open more than the window; those for a process that is gone are ignored."""
    process_id = peer.start("yes", windowBytes=1000)
    receive_bytes(peer, process_id, 1000)
    peer.notify("process/ack", processId=process_id, seq=0)
    peer.run("true")
    assert len(peer.output(process_id)) == 1000
    peer.notify("process/ack", processId=process_id, seq=2**53 - 1)
    receive_bytes(peer, process_id, 2000)
    peer.run("true")
    assert len(peer.output(process_id)) == 2000
    peer.call("process/terminate", processId=process_id)
    peer.finish(process_id)
    for gone in (process_id, "nobody"):
        peer.notify("process/ack", processId=gone, seq=5)
    peer.run("true")
    assert not peer.faults


def test_a_window_is_at_most_the_retention(open_websocket: OpenPeer, listen: Callable[..., Program]) -> None:
    """So nothing unacknowledged is dropped from what is retained, and a poll finds it all."""
    peer = open_websocket(listen("--retained-output-bytes", "200000")).handshake()
    process_id = peer.start("yes", windowBytes=10 * MIB)
    receive_bytes(peer, process_id, 200_000)
    peer.run("true")
    assert len(peer.output(process_id)) == 200_000
    answer = peer.call("process/read", processId=process_id)
    assert (answer["truncated"], answer["droppedBytes"], answer["firstSeq"]) == (False, 0, 1)


def test_at_the_exit_everything_goes_out_whatever_the_window(peer: Peer) -> None:
    """What the process had itself written comes before ``exited``, which waits for no ack."""
    process_id = peer.start("sh", "-c", "head -c 50000 /dev/zero; echo err >&2; exit 3", windowBytes=1)
    assert peer.event("process/exited", process_id)["exitCode"] == 3
    assert peer.output(process_id) == bytes(50_000) and peer.output(process_id, "stderr") == b"err\n"
    ack_all(peer, process_id)
    peer.finish(process_id)


def test_a_killed_process_is_closed_without_an_ack(peer: Peer) -> None:
    """Though descendants had more to say."""
    process_id = peer.start("sh", "-c", "yes & yes >&2 & sleep 1000", windowBytes=1000)
    while len(peer.output(process_id)) + len(peer.output(process_id, "stderr")) < 1000:
        peer.receive()
    peer.call("process/terminate", processId=process_id)
    assert peer.finish(process_id).exited["reason"] == "terminated"


def test_only_the_process_whose_window_is_full_waits(peer: Peer) -> None:
    """A terminal with a window stands still, a flood without one goes on."""
    still = peer.start("yes", tty=True, windowBytes=100)
    flood = peer.start("head", "-c", "3000000", "/dev/zero")
    assert peer.finish(flood).stdout == bytes(3_000_000)
    assert len(peer.output(still, "pty")) == 100


# ---- a client that does not read -----------------------------------------------------------------------------------


def test_a_client_that_does_not_read_is_not_cut_off(peer: Peer, open_websocket: OpenPeer) -> None:
    """The child is made to wait, memory stays bounded, another connection is served, and nothing is lost."""
    other = open_websocket().handshake()
    process_id = peer.start("yes")
    pid = peer.event("process/started", process_id)["pid"]
    wait_until_stalled(pid)
    assert resident_bytes(peer.program.pid) < MAX_SERVER_BYTES
    assert other.run("echo", "hi").stdout == b"hi\n"
    size = receive_bytes(peer, process_id, 5 * MIB)
    assert peer.call("process/terminate", processId=process_id) == {"running": True}
    output = peer.finish(process_id).stdout
    assert len(output) >= size and output.count(b"y\n") * 2 >= len(output) - 1


def test_answers_that_are_not_read_hold_up_their_own_client_only(
    open_peer: OpenPeer, open_websocket: OpenPeer, tmp_path: Path
) -> None:
    """Two hundred megabytes are asked for; the server holds a few of them, and all come when they are read."""
    peer, other = open_peer("--max-connections", "9").handshake(), open_websocket().handshake()
    (tmp_path / "file").write_bytes(bytes(2 * MIB))
    asked = [peer.request("fs/readFile", path=str(tmp_path / "file")) for _ in range(80)]
    assert other.run("echo", "hi").stdout == b"hi\n"
    first = peer.result(asked[0])
    for id in asked[1:]:
        assert peer.result(id) == first
        peer.transcript.clear()
    assert peak_bytes(peer.program.pid) < MAX_SERVER_BYTES


def test_a_long_answer_goes_as_fragments(open_websocket: OpenPeer, tmp_path: Path) -> None:
    """Of at most 1 MiB, with control frames in between: a pong is not held up by the message."""
    peer = open_websocket().handshake()
    (tmp_path / "file").write_bytes(bytes(40 * MIB))
    connection = peer.link.connection  # type: ignore[attr-defined]
    peer.request("fs/readFile", path=str(tmp_path / "file"))
    fragments = connection.recv_streaming()
    sizes = [len(next(fragments))]
    pong = connection.ping()
    ponged_after = None
    for fragment in fragments:
        sizes.append(len(fragment))
        if ponged_after is None and pong.is_set():
            ponged_after = len(sizes)
    assert max(sizes) <= MIB and sum(sizes) > 53 * MIB
    assert ponged_after is not None and ponged_after < len(sizes)


# ---- open requests -------------------------------------------------------------------------------------------------


def test_beyond_4096_open_requests_the_connection_is_not_read(
    peer: Peer, open_websocket: OpenPeer, tmp_path: Path
) -> None:
    """Until there is room: then all are answered, the last one after the first."""
    other = open_websocket().handshake()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    gate = os.open(fifo, os.O_RDWR)
    try:
        process_id = peer.start("sh", "-c", f"read x <{fifo}; exec cat >/dev/null", pipeStdin=True)
        filling = peer.request("process/write", processId=process_id, chunk="AAAA" * 100_000)
        writes = [peer.request("process/write", processId=process_id, chunk="AAAA") for _ in range(4095)]
        last = peer.request("process/terminate", processId="nobody")
        for _ in range(20):
            other.run("true")
        os.write(gate, b"go\n")
        peer.result(last)
        assert any(message.get("id") == filling for message in peer.transcript)
        assert all(peer.result(id) for id in (filling, *writes))
    finally:
        os.close(gate)
