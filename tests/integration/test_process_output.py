"""Output arrives whole and in order, before the exit; who holds the streams does not hold up the exit."""

from __future__ import annotations

import base64
import hashlib
import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from endings import gone
from links import PATIENCE, Program, WebSocketLink
from peer import Json, OpenPeer, Peer
from proc import is_alive, resident_bytes

MIB = 1024 * 1024

#: Copies stdin to stdout in odd pieces, with a line on stderr after each.
COPIER = """
import os, sys
number = 0
while data := os.read(0, 60_001):
    while data:
        data = data[os.write(1, data):]
    number += 1
    os.write(2, b"%d\\n" % number)
"""


def notifications(peer: Peer, process_id: str) -> list[str]:
    """The kinds of what was told of a process, in order."""
    return [
        message["method"].removeprefix("process/")
        for message in peer.transcript
        if message.get("params", {}).get("processId") == process_id
    ]


def test_150_short_processes_lose_nothing(peer: Peer) -> None:
    """Every third on a tty: output complete and before ``exited``, ``closed`` last."""
    script = "seq 1 200; exit 7"
    numbers = "".join(f"{number}\n" for number in range(1, 201)).encode()
    started = []
    for number in range(150):
        started.append((peer.request_start("sh", "-c", script, tty=number % 3 == 0)[1], number % 3 == 0))
        if number % 10 == 9:
            peer.event("process/closed", started[-5][0])
    for process_id, tty in started:
        life = peer.finish(process_id)
        assert (life.pty.replace(b"\r\n", b"\n") if tty else life.stdout) == numbers
        first, *outputs, last_but_one, last = notifications(peer, process_id)
        assert (first, last_but_one, last) == ("started", "exited", "closed")
        assert set(outputs) == {"output"} and life.exited["exitCode"] == 7


@pytest.mark.parametrize("tty", [False, True])
def test_much_output_comes_before_the_exit(peer: Peer, tty: bool) -> None:
    """A caller that stops at ``exited`` has it all."""
    process_id = peer.start("sh", "-c", "seq 1 200000; exit 7", tty=tty)
    assert peer.event("process/exited", process_id)["exitCode"] == 7
    output = peer.output(process_id, "pty" if tty else "stdout").replace(b"\r", b"")
    assert output == "".join(f"{number}\n" for number in range(1, 200_001)).encode()


def test_a_chunk_is_standard_base64_of_at_most_64_kib(peer: Peer) -> None:
    """Of any bytes, also when more wait."""
    data = bytes(range(256)) * 2000
    process_id = peer.start("cat", pipeStdin=True)
    peer.call("process/write", processId=process_id, chunk=base64.b64encode(data).decode())
    while len(peer.output(process_id)) < len(data):
        peer.receive()
    assert peer.output(process_id) == data
    chunks = [message["params"]["chunk"] for message in peer.transcript if message.get("method") == "process/output"]
    assert all(len(base64.b64decode(chunk, validate=True)) <= 64 * 1024 for chunk in chunks)


def events_of_flood(peer: Peer, size: int, path: Path) -> Iterator[Json]:
    """Random bytes through ``path`` to a process's stdout, with lines on stderr in between: its events."""
    with open("/dev/urandom", "rb") as random, path.open("wb") as file:
        for _ in range(size // MIB):
            file.write(random.read(MIB))
    script = f"exec python3 -c '{COPIER}' <{path}"
    process_id = peer.start("sh", "-c", script)
    while True:
        params: Json = peer.receive()["params"]
        peer.transcript.clear()
        assert params["processId"] == process_id
        yield params
        if "outputComplete" in params:
            return


def check_flood(events: Iterator[Json], path: Path) -> None:
    """Identical hashes, and every line of stderr once."""
    digest, lines = hashlib.sha256(), bytearray()
    for event in events:
        data = base64.b64decode(event.get("chunk", ""))
        if event.get("stream") == "stdout":
            digest.update(data)
        else:
            lines += data
    with path.open("rb") as file:
        assert digest.digest() == hashlib.file_digest(file, "sha256").digest()
    numbers = [int(line) for line in lines.split()]
    assert numbers == list(range(1, len(numbers) + 1)) and numbers


def test_64_mib_of_random_bytes_arrive_as_they_were_written(peer: Peer, tmp_path: Path) -> None:
    """Stderr in between; seqs without gaps or swaps (the peer checks that)."""
    path = tmp_path / "random"
    check_flood(events_of_flood(peer, 64 * MIB, path), path)


def test_a_slow_client_gets_the_same_bytes(peer: Peer, open_websocket: OpenPeer, tmp_path: Path) -> None:
    """It pauses often, while another connection is served; the child waits, the server's memory is bounded."""
    other = open_websocket().handshake()
    path = tmp_path / "random"
    sizes = [resident_bytes(peer.program.pid)]

    def slowly() -> Iterator[Json]:
        for event in events_of_flood(peer, 16 * MIB, path):
            if event.get("seq", 0) % 20 == 1:
                other.run("true")
                sizes.append(resident_bytes(peer.program.pid))
            yield event

    check_flood(slowly(), path)
    assert max(sizes) - sizes[0] < 50_000_000


def test_an_exit_is_not_held_up_by_who_goes_on_writing(peer: Peer) -> None:
    """``yes`` holds the streams and floods them; more output follows, ``closed`` comes when it is killed."""
    process_id = peer.start("sh", "-c", "yes & sleep 0.1; echo hi")
    assert peer.event("process/exited", process_id)["exitCode"] == 0
    assert b"hi\n" in peer.output(process_id)
    assert peer.call("process/terminate", processId=process_id) == {"running": False}
    assert peer.finish(process_id).closed["outputComplete"] is True


def test_a_descendant_that_holds_the_streams_delays_closed_only(peer: Peer, tmp_path: Path) -> None:
    """Its output still comes, after ``exited``; at its end the process is closed."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = os.open(fifo, os.O_RDWR)  # does not wait for a reader (fifo(7))
    try:
        process_id = peer.start("sh", "-c", f"(read x <{fifo}; echo late) & echo hi")
        peer.event("process/exited", process_id)
        os.write(writer, b"go\n")
        assert peer.finish(process_id).stdout == b"hi\nlate\n"
    finally:
        os.close(writer)
    assert notifications(peer, process_id) == ["started", "output", "exited", "output", "closed"]


def test_a_daemon_that_closed_its_streams_does_not_delay_closed(peer: Peer) -> None:
    """It lives on."""
    life = peer.run("sh", "-c", "sleep 1000 <&- >&- 2>&- & echo $!")
    daemon = int(life.stdout)
    try:
        assert life.closed["outputComplete"] is True and is_alive(daemon)
    finally:
        os.kill(daemon, signal.SIGKILL)


def test_an_interactive_shell_with_a_job_leaves_nothing_after_terminate(peer: Peer) -> None:
    """The job has a group of its own in the terminal's session."""
    process_id = peer.start("bash", "--norc", "-i", tty=True)
    write = base64.b64encode(b"sleep 1000 & echo job:$!.\n").decode()
    peer.call("process/write", processId=process_id, chunk=write)
    while not (jobs := peer.output(process_id, "pty").rpartition(b"job:")[2].split(b".")[0]).isdigit():
        peer.receive()
    peer.call("process/terminate", processId=process_id)
    peer.finish(process_id)
    assert gone(int(jobs))


# ---- order of answers and notifications ----------------------------------------------------------------------------


def test_answers_overtake_output(peer: Peer) -> None:
    """On a flooded connection a request is answered while megabytes of output are still to come."""
    process_id = peer.start("sh", "-c", "head -c 20000000 /dev/zero")
    peer.event("process/output", process_id)
    for _ in range(5):
        peer.call("process/terminate", processId="nobody")
    assert len(peer.output(process_id)) < 20_000_000
    peer.finish(process_id)


def test_an_answer_that_tells_of_an_end_comes_after_its_notification(peer: Peer) -> None:
    """Reads that wait at the end of a process, and reads and terminates that come right then."""
    process_id = peer.start("sh", "-c", "read x; head -c 1000000 /dev/zero; exit 3", pipeStdin=True)
    waiting = [peer.request("process/read", processId=process_id, afterSeq=10**6, waitMs=60_000) for _ in range(5)]
    peer.request("process/write", processId=process_id, chunk="Cg==")
    ended = False
    while not ended:
        ended = peer.call("process/read", processId=process_id, afterSeq=10**6)["closed"]
    assert all(peer.result(id)["closed"] for id in waiting)
    check_that_ends_were_told(peer.transcript, process_id)


def check_that_ends_were_told(transcript: list[Json], process_id: str) -> None:
    """Each answer to a read says only what was told before it."""
    told: set[str] = set()
    for message in transcript:
        if message.get("params", {}).get("processId") == process_id:
            told.add(message["method"])
        elif "exited" in message.get("result", {}):
            result = message["result"]
            assert not result["exited"] or "process/exited" in told
            assert not result["closed"] or "process/closed" in told


def test_terminate_tells_of_an_exit_after_its_notification(peer: Peer) -> None:
    """``running: false`` for a process that was there comes behind ``exited``."""
    for _ in range(30):
        process_id = peer.start("true")
        id = peer.request("process/terminate", processId=process_id)
        if not peer.result(id)["running"]:
            assert "exited" in notifications(peer, process_id)
        peer.finish(process_id)


def test_a_hundred_terminates_in_the_moment_of_the_start(peer: Peer) -> None:
    """Started and terminated at once: every process is told of to its end."""
    started = []
    for _ in range(100):
        id, process_id = peer.request_start("true")
        started.append((id, process_id, peer.request("process/terminate", processId=process_id)))
    for id, process_id, terminate in started:
        peer.result(id)
        peer.result(terminate)
        assert peer.finish(process_id).exited["reason"] in ("exited", "terminated")


# ---- several connections -------------------------------------------------------------------------------------------


def test_two_connections_do_not_disturb_each_other(open_websocket: OpenPeer) -> None:
    """One floods and is not read; the other works, and nothing of the first one reaches it."""
    flooded, other = open_websocket().handshake(), open_websocket().handshake()
    flooded.start("yes", processId="flood")
    for number in range(20):
        assert other.run("echo", str(number), tty=number % 2 == 0).exited["exitCode"] == 0
    assert "flood" not in {message.get("params", {}).get("processId") for message in other.transcript}
    assert flooded.call("process/terminate", processId="flood") == {"running": True}
    flooded.finish("flood")


def test_many_connections_work_at_the_same_time(server: Program) -> None:
    """Ten of them, each with processes of the same names."""
    failures: list[BaseException] = []

    def work() -> None:
        try:
            peer = Peer.over_websocket(server).handshake()
            for number in range(5):
                assert peer.run("sh", "-c", f"echo {number}; exit {number}", processId=f"p{number}").stdout
            peer.close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not failures


def test_connections_are_limited(listen: Callable[..., Program], open_websocket: OpenPeer) -> None:
    """The one above the limit is turned away in its handshake; when another ends there is room again."""
    server = listen("--max-connections", "2")
    first, second = open_websocket(server).handshake(), open_websocket(server).handshake()
    with pytest.raises(Exception, match="503"):
        WebSocketLink(server.url)
    first.close()
    for attempt in itertools.count():
        try:
            third = open_websocket(server).handshake()
            break
        except Exception as error:
            assert "503" in str(error) and attempt < 1000
    assert third.run("true").exited["exitCode"] == second.run("true").exited["exitCode"] == 0
