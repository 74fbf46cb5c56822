"""The client against the real server, over stdio and websocket."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from background import Background
from endings import gone

from execsrv import ClosedError, Disconnected, ExecServerClient, ProcessOutput, ServerError, Size, TimeoutExpired
from execsrv.client.notifications import Event

WAIT = 30.0


# ---- run ---------------------------------------------------------------------------------------------------------


def test_run(client: ExecServerClient) -> None:
    """Output of both streams and the code."""
    done = client.run(["sh", "-c", "echo out; echo err >&2; exit 3"], text=True)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_run_on_a_terminal(client: ExecServerClient) -> None:
    """It has the size that was asked for, and its output is all in stdout."""
    done = client.run(["sh", "-c", "stty size; echo err >&2"], tty=True, size=Size(50, 200), text=True)
    assert (done.stdout, done.stderr) == ("50 200\nerr\n", "")


def test_death_by_signal(client: ExecServerClient) -> None:
    """The code is 128 + N and the name is told."""
    process = client.start(["sh", "-c", "kill -9 $$"])
    assert process.wait(WAIT) == 137
    assert (process.signal, process.reason) == ("SIGKILL", "signaled")


def test_environment_and_directory(client: ExecServerClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's own if none is given, else exactly what is given; never the caller's."""
    monkeypatch.setenv("EXECSRV_TEST_SECRET", "of this program")
    mine = client.run(["env"], text=True).stdout
    assert "PATH=" in mine
    assert "EXECSRV_TEST_SECRET" not in mine
    assert client.run(["/usr/bin/env"], env={"A": "1"}, text=True).stdout == "A=1\n"
    assert client.run(["pwd"], text=True).stdout.strip() == client.server_info.cwd
    assert client.run(["pwd"], cwd="/usr", text=True).stdout == "/usr\n"


def test_directory_that_is_not_utf8(client: ExecServerClient, tmp_path: Path) -> None:
    """A directory with any name can be used."""
    odd = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(odd)
    assert client.run(["pwd"], cwd=odd).stdout == odd + b"\n"


def test_missing_program(client: ExecServerClient) -> None:
    """The server's error is that of ``subprocess``, too; nothing is left of the process."""
    with pytest.raises(FileNotFoundError, match="no-such-program") as caught:
        client.run(["no-such-program"], process_id="again")
    assert isinstance(caught.value, ServerError) and caught.value.kind == "spawnNotFound"
    with pytest.raises(PermissionError, match="/etc/passwd"):
        client.run(["/etc/passwd"], process_id="again")
    with pytest.raises(FileNotFoundError, match="cwd /no/such"):
        client.run(["true"], cwd="/no/such", process_id="again")
    assert client.run(["true"], process_id="again").returncode == 0


def test_run_out_of_time(client: ExecServerClient) -> None:
    """The output so far is in the error, and the process is gone."""
    with pytest.raises(TimeoutExpired) as caught:
        client.run(["sh", "-c", "echo $$; exec sleep 1000"], timeout=0.5, text=True)
    assert gone(int(caught.value.output))


def test_grandchild_that_holds_the_streams(client: ExecServerClient) -> None:
    """It does not hold up the result; killing the process still reaches it."""
    process = client.start(["sh", "-c", "sleep 1000 & echo $!"])
    output, _ = process.communicate(timeout=WAIT, text=True, drain_timeout=0.05)
    assert process.returncode == 0
    process.kill()
    assert gone(int(output))


def test_write(client: ExecServerClient) -> None:
    """What is written reaches stdin."""
    process = client.start(["head", "-n", "1"], pipe_stdin=True)
    process.write(b"hello\n")
    assert process.communicate(timeout=WAIT) == (b"hello\n", b"")
    with pytest.raises(ServerError) as caught:
        process.write(b"late")
    assert caught.value.kind == "stdinClosed"


def test_block_leaves_no_process(client: ExecServerClient) -> None:
    """The pid is known, and the process dies with the block."""
    with client.start(["sleep", "1000"]) as process:
        assert process.pid
        assert process.poll() is None
    assert (process.returncode, process.reason) == (137, "terminated")
    assert gone(process.pid)


def test_many_short_processes_at_once(client: ExecServerClient) -> None:
    """From several threads, each with its whole output."""

    def run_some() -> list[str]:
        return [client.run(["echo", str(number)], text=True, tty=number % 3 == 0).stdout for number in range(15)]

    threads = [Background(run_some) for _ in range(4)]
    for thread in threads:
        assert thread.result() == [f"{number}\n" for number in range(15)]


# ---- floods ------------------------------------------------------------------------------------------------------


def test_unread_flood_costs_nobody_else(client: ExecServerClient) -> None:
    """Other processes and files are served at once, and the flood stands still."""
    with client.start(["yes"]) as flood:
        next(iter(flood))
        for _ in range(10):
            assert client.run(["true"], timeout=WAIT).returncode == 0
        assert client.fs.exists("/")
        assert flood.poll() is None


def test_flood_is_bounded_by_its_window(client: ExecServerClient, tmp_path: Path) -> None:
    """A process that nobody reads cannot write on; once it is read it can, and nothing is lost."""
    script = "head -c 10000000 /dev/zero; echo done >" + str(tmp_path / "done")
    process = client.start(["sh", "-c", script])
    next(iter(process))
    for _ in range(10):
        client.run(["true"])
    assert not (tmp_path / "done").exists()
    rest = sum(len(output.chunk) for output in process)
    assert rest > 10_000_000 - 65536 - 1
    assert (tmp_path / "done").exists()


def test_random_bytes_arrive_whole_at_a_slow_reader(client: ExecServerClient) -> None:
    """With stderr in between: no byte is lost, doubled or swapped, and seq has no gap."""
    script = "for i in 1 2 3 4 5 6 7 8; do head -c 1000000 /dev/urandom | tee -a /dev/fd/3; echo $i >&2; done"
    with client.start(["bash", "-c", f"{script} 3> >(sha256sum >&2)"]) as process:
        sent, numbers = hashlib.sha256(), b""
        seqs: list[int] = []
        for output in process:
            if len(seqs) % 50 == 0:
                client.run(["true"])
            seqs.append(output.seq)
            if output.stream == "stdout":
                sent.update(output.chunk)
            else:
                numbers += output.chunk
    assert numbers.decode().split() == [*"12345678", sent.hexdigest(), "-"]
    assert seqs == sorted(set(seqs))
    assert len(set(range(1, seqs[-1])) - set(seqs)) <= 1  # the exit, when the sum came after it


def test_callback_writes_to_its_process_during_a_flood(client: ExecServerClient) -> None:
    """The flood does not keep the answer away."""
    started, once = threading.Event(), threading.Event()

    def stop(event: Event) -> None:
        if not once.is_set() and started.wait(WAIT):
            once.set()
            process.write(b"stop\n")

    script = "yes & read line; kill $!; wait; echo $line >&2"
    with client.events.subscribe(stop, process_id="flood", kind="output"):
        process = client.start(["sh", "-c", script], pipe_stdin=True, process_id="flood")
        started.set()
        assert process.wait(WAIT) == 0
        output, stderr = process.communicate(timeout=WAIT)
    assert b"stop\n" in stderr
    assert output.startswith(b"y\ny\n")


def test_callback_writes_more_than_fits(client: ExecServerClient) -> None:
    """The child has to write before it reads on, into a window that is meant for the callback itself."""
    received = bytearray()
    complete = threading.Event()
    data = os.urandom(4_000_000)

    def feed(event: Event) -> None:
        assert isinstance(event, ProcessOutput)
        if not received:
            process.write(data)
        received.extend(event.chunk)
        if len(received) == len(data) + 1:
            complete.set()

    with (
        client.events.subscribe(feed, process_id="cat", kind="output"),
        client.start(["cat"], pipe_stdin=True, process_id="cat", capture=False) as process,
    ):
        process.write(b"!")
        assert complete.wait(WAIT)
    assert bytes(received) == b"!" + data


def test_slow_callback_holds_back_only_its_own_process(client: ExecServerClient, tmp_path: Path) -> None:
    """Handles of others are read on; its own gets everything in the end."""
    go_on, received = threading.Event(), []

    def be_slow(event: Event) -> None:
        assert go_on.wait(WAIT)
        assert isinstance(event, ProcessOutput)
        received.append(len(event.chunk))

    with client.events.subscribe(be_slow, process_id="slow", kind="output"):
        script = "head -c 3000000 /dev/zero; echo done >" + str(tmp_path / "done")
        process = client.start(["sh", "-c", script], process_id="slow")
        assert len(client.run(["head", "-c", "3000000", "/dev/zero"], timeout=WAIT).stdout) == 3_000_000
        assert not (tmp_path / "done").exists()
        go_on.set()
        assert process.wait(WAIT) == 0
        assert len(process.communicate(timeout=WAIT)[0]) == 3_000_000
    assert sum(received) <= 3_000_000


def test_receiver_loop_may_run_commands(client: ExecServerClient) -> None:
    """Though their output belongs to the receiver too, and is more than a window."""
    with client.event_receiver(WAIT, kind="output") as receiver:
        first = client.start(["echo", "go"])
        next(receiver)
        assert len(client.run(["head", "-c", "3000000", "/dev/zero"], timeout=WAIT).stdout) == 3_000_000
        pulled = 0
        while pulled < 3_000_000:
            event = next(receiver)
            assert isinstance(event, ProcessOutput)
            pulled += len(event.chunk)
    assert pulled == 3_000_000
    assert first.wait(WAIT) == 0


def test_events_of_a_process_come_in_order(client: ExecServerClient) -> None:
    """Started, output, exited, closed."""
    with client.event_receiver(WAIT, process_id="life") as receiver:
        client.start(["echo", "hi"], process_id="life")
        kinds = []
        for event in receiver:
            kinds.append(event.kind)  # type: ignore[union-attr]
            if event.kind == "closed":  # type: ignore[union-attr]
                break
    assert kinds == ["started", "output", "exited", "closed"]


# ---- files -------------------------------------------------------------------------------------------------------


def test_large_file(client: ExecServerClient, tmp_path: Path) -> None:
    """A message of 16 MiB each way."""
    data = os.urandom(12 * 1024 * 1024)
    client.fs.write_bytes(tmp_path / "large", data)
    assert client.fs.read_bytes(tmp_path / "large") == data


# ---- the end -----------------------------------------------------------------------------------------------------


@pytest.fixture(params=["stdio", "websocket"])
def mortal(request: pytest.FixtureRequest) -> Iterator[tuple[ExecServerClient, Callable[[], None]]]:
    """A client of a server of its own, and how to kill that."""
    options = ["--listen", "ws://127.0.0.1:0"] if request.param == "websocket" else []
    command = [sys.executable, "-m", "execsrv", *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe if options else None) as server:
        assert server.stdin and server.stdout
        if server.stderr:
            client = ExecServerClient.connect_websocket(server.stderr.readline().decode().split()[-1])
        else:
            client = ExecServerClient.connect_stdio(server.stdout, server.stdin)
        with client:
            yield client, server.kill
        server.kill()


def test_server_dies_in_the_middle_of_output(mortal: tuple[ExecServerClient, Callable[[], None]]) -> None:
    """Everything that waits ends with the closed error, never with success."""
    client, kill_server = mortal
    process = client.start(["sleep", "1000"])
    receiver = client.event_receiver(WAIT, kind="disconnected")
    running = Background(lambda: client.run(["seq", "1", "2000000000"]))
    reading = Background(lambda: list(client.start(["yes"], capture=False)))
    waiting = Background(process.wait)
    client.run(["true"])
    assert process.pid
    kill_server()
    os.kill(process.pid, signal.SIGKILL)  # which nobody else does now; the others die of a closed pipe
    for background in (running, reading, waiting):
        with pytest.raises(ClosedError, match="^exec-server transport closed"):
            background.result()
    with pytest.raises(ClosedError):
        process.poll()
    assert isinstance(next(receiver), Disconnected)


def test_closing_the_client_ends_its_processes(mortal: tuple[ExecServerClient, Callable[[], None]]) -> None:
    """Also the descendants, and those without a handle."""
    client, _ = mortal
    output, _ = client.start(["sh", "-c", "sleep 1000 & echo $!"]).communicate(drain_timeout=0)
    pid = client.start(["sleep", "1000"]).pid
    client.close()
    assert pid
    assert gone(pid)
    assert gone(int(output))


INTERRUPTED = """
import execsrv
with execsrv.spawn_local_exec_server() as client:
    client.events.subscribe(lambda event: print(event.pid, flush=True), kind="started")
    try:
        client.run(["sleep", "1000"])
    except KeyboardInterrupt:
        print(client.run(["echo", "alive"], text=True).stdout, flush=True)
"""


def test_interrupted_run_kills_the_process() -> None:
    """A Ctrl-C reaches the program, and not the server, which lives on."""
    script = [sys.executable, "-c", INTERRUPTED]
    with subprocess.Popen(script, stdout=subprocess.PIPE, text=True, start_new_session=True) as program:
        assert program.stdout
        pid = int(program.stdout.readline())
        os.killpg(program.pid, signal.SIGINT)
        assert "alive" in program.stdout.read()
    assert program.returncode == 0
    assert gone(pid)
