"""A server inside this program, on a thread's hub, and on the program's own under ``gevent.monkey.patch_all()``."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest
from background import Background
from endings import gone
from gevent import monkey

from execsrv import CallTimeout, ClosedError, ExecServerClient, ProcessOutput, ServerError
from execsrv.config import ExecServerConfig

#: Longest wait for anything, in seconds.
PATIENCE = 20.0

PATCHED = monkey.is_module_patched("threading")
PATCH = "from gevent import monkey; monkey.patch_all()\n"

#: More tests that use such a server, among others, and how to choose them. Left out is what ends a pipe and waits: the
#: patched ``os.close`` leaves it open until the hub has something else to do.
ALSO_IN_PROCESS = ["test_client_process.py", "test_remote_file.py"]
CHOSEN = "in_process"

#: gevent.subprocess reaps every child of the program, so nothing else in these tests uses it.
plain_only = pytest.mark.skipif(PATCHED, reason="needs a program of its own, or signals that reach its main thread")


@pytest.fixture
def client() -> Iterator[ExecServerClient]:
    """A client that is its own server."""
    with ExecServerClient.connect_in_process() as client:
        yield client


def in_threads(count: int, function: Callable[[int], Any]) -> list[Any]:
    """The results of ``function(0)``, ``function(1)``, ..., all called at the same time."""
    calls = [Background(lambda number=number: function(number)) for number in range(count)]  # type: ignore[misc]
    return [call.result() for call in calls]


def eventually(condition: Callable[[], bool]) -> bool:
    """Look again and again, for what nothing tells, until it holds; False after PATIENCE seconds."""
    deadline = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def holdings() -> dict[str, int]:
    """How many threads and descriptors this program has."""
    return {name: len(os.listdir(f"/proc/self/{name}")) for name in ("task", "fd")}


def no_more_than(before: dict[str, int]) -> bool:
    """Has the program as few threads and descriptors as before?"""
    return all(holdings()[what] <= before[what] for what in before)


def reaped(pid: int | None) -> bool:
    """Is it no child of ours any more, not even a zombie?"""
    assert pid
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def pid_of_sleep(client: ExecServerClient) -> int:
    """The pid of a process that runs for long."""
    pid = client.start(["sleep", "1000"]).pid
    assert pid
    return pid


# ---- what it does --------------------------------------------------------------------------------------------------


def test_run(client: ExecServerClient) -> None:
    """Output of both streams and the code."""
    done = client.run(["sh", "-c", "echo out; echo err >&2; exit 3"], text=True)
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 3)


def test_all_bytes(client: ExecServerClient, tmp_path: Path) -> None:
    """More than windows and spools hold, as it was written."""
    data = os.urandom(3_000_001)
    (tmp_path / "data").write_bytes(data)
    assert client.run(["cat", tmp_path / "data"]).stdout == data


def test_a_terminal(client: ExecServerClient) -> None:
    """Written to, read from, and 24 x 80."""
    process = client.start(["sh", "-c", "stty size; read line; echo got $line"], tty=True)
    assert next(iter(process)).chunk == b"24 80\r\n"
    process.write(b"it\n")
    assert process.communicate(timeout=PATIENCE) == (b"it\r\ngot it\r\n", b"")


def test_events(client: ExecServerClient) -> None:
    """A receiver and a callback see the whole life in order; the callback may call."""
    codes = []
    client.events.subscribe(lambda event: codes.append(client.run(["true"]).returncode), kind="closed")
    with client.event_receiver(PATIENCE, process_id="p") as events:
        client.start(["echo", "hi"], process_id="p")
        seen = [next(events) for _ in range(4)]
    assert [type(event).__name__ for event in seen] == [
        "ProcessStarted", "ProcessOutput", "ProcessExited", "ProcessClosed"
    ]
    assert isinstance(seen[1], ProcessOutput) and seen[1].chunk == b"hi\n"
    assert eventually(lambda: codes[:1] == [0])


def test_files(client: ExecServerClient, tmp_path: Path) -> None:
    """Bytes there and back; errors are Python's own, with the server's as their cause."""
    client.fs.write_bytes(tmp_path / "file", b"\x00\xff")
    assert client.fs.read_bytes(tmp_path / "file") == b"\x00\xff"
    assert client.fs.listdir(tmp_path) == ["file"]
    with pytest.raises(FileNotFoundError) as caught:
        client.fs.read_bytes(tmp_path / "none")
    assert isinstance(caught.value.__cause__, ServerError)
    assert (caught.value.__cause__.code, caught.value.__cause__.kind) == (-32004, "notFound")


def test_file_requests_in_order(client: ExecServerClient, tmp_path: Path) -> None:
    """Also when nobody waits for the first ones: the last content stays."""
    for number in range(100):
        with contextlib.suppress(CallTimeout):
            client.call("fs/writeFile", {"path": str(tmp_path / "file"), "dataBase64": f"{number:04}"}, timeout=0)
    assert client.call("fs/readFile", {"path": str(tmp_path / "file")}) == {"dataBase64": "0099"}


@pytest.mark.parametrize(
    "method, params, kind",
    [
        ("process/start", {"processId": "p", "argv": ["/none"], "cwd": "/", "env": {}, "tty": False}, "spawnNotFound"),
        ("process/read", {"processId": "never"}, "unknownProcess"),
        ("process/write", {"processId": "never", "chunk": "", "extra": object()}, "unknownProcess"),
        ("process/read", {"processId": 7}, "invalidParams"),
        ("no/such", {}, "unknownMethod"),
        ("initialize", {"clientName": "again"}, "alreadyInitialized"),
    ],
)
def test_errors_are_the_servers(client: ExecServerClient, method: str, params: dict[str, Any], kind: str) -> None:
    """As over any other connection."""
    with pytest.raises(ServerError) as caught:
        client.call(method, params, timeout=PATIENCE)
    assert caught.value.kind == kind


def test_a_call_that_fails_inside_raises(client: ExecServerClient) -> None:
    """What is no error of the protocol reaches the caller too, who would wait for ever; the next call works."""
    with pytest.raises(TypeError):
        client.call(["not a name"], timeout=PATIENCE)  # type: ignore[arg-type]
    assert client.run(["true"]).returncode == 0


def test_limits() -> None:
    """The configuration holds."""
    with ExecServerClient.connect_in_process(config=ExecServerConfig(max_processes_per_connection=1)) as client:
        client.start(["sleep", "1000"])
        with pytest.raises(ServerError) as caught:
            client.start(["true"])
        assert caught.value.kind == "limitExceeded"


# ---- side by side --------------------------------------------------------------------------------------------------


def test_many_threads(client: ExecServerClient) -> None:
    """Each gets its own answers."""
    outputs = in_threads(20, lambda number: [client.run(["echo", f"{number}-{i}"], text=True).stdout for i in range(5)])
    assert outputs == [[f"{number}-{i}\n" for i in range(5)] for number in range(20)]


def test_what_waits_holds_nothing_up(client: ExecServerClient, tmp_path: Path) -> None:
    """A read, a write and a wait that go on; meanwhile others run."""
    process = client.start(["sleep", "1000"], pipe_stdin=True)
    reading = {"processId": process.process_id, "waitMs": 1_000_000}
    waiting = [
        Background(lambda: client.call("process/read", reading)),
        Background(lambda: process.write(bytes(1_000_000))),
        Background(process.wait),
    ]
    client.fs.write_bytes(tmp_path / "file", b"")
    assert client.run(["true"], timeout=PATIENCE).returncode == 0
    assert all(call.is_running() for call in waiting)
    process.kill()
    assert waiting[2].result() == 137
    assert waiting[0].result()["exitCode"] == 137
    with pytest.raises(ServerError):
        waiting[1].result()


def test_an_unread_flood_is_held_back(client: ExecServerClient) -> None:
    """It stays within its window, and others run."""
    unread = client.start(["yes"])
    for _ in range(20):
        assert client.run(["true"], timeout=PATIENCE).returncode == 0
    written = dict(line.split(": ") for line in Path(f"/proc/{unread.pid}/io").read_text().splitlines())["wchar"]
    assert 0 < int(written) < 1024 * 1024


def test_a_greenlet_of_the_program(client: ExecServerClient) -> None:
    """A program's own greenlets go on working beside the client, and in them the client."""
    assert gevent.spawn(lambda: client.run(["echo", "in"]).stdout).get(timeout=PATIENCE) == b"in\n"
    greenlet = gevent.spawn(lambda: 7)
    assert client.run(["true"]).returncode == 0
    assert greenlet.get(timeout=PATIENCE) == 7


# ---- the end -------------------------------------------------------------------------------------------------------


def test_close_ends_everything() -> None:
    """Processes, their descendants, threads and descriptors; no zombie stays."""
    with ExecServerClient.connect_in_process() as client:
        client.run(["true"])  # whatever is loaded for good is loaded now
    before = holdings()
    for _ in range(20):
        with ExecServerClient.connect_in_process() as client:
            process = client.start(["sh", "-c", "sleep 1000 & echo $!; wait"])
            descendant = int(next(iter(process)).chunk)
            pids = [process.pid, pid_of_sleep(client), client.start(["sleep", "1000"], tty=True).pid]
            client.fs.stat("/")
        assert gone(descendant)
        assert all(map(reaped, pids))
    assert eventually(lambda: no_more_than(before)), (holdings(), before)


def test_a_dropped_client_ends_everything() -> None:
    """When nobody can use it any more, as if it was closed."""
    with ExecServerClient.connect_in_process() as client:
        client.run(["true"])
    before = holdings()
    for _ in range(20):
        client = ExecServerClient.connect_in_process()
        pid = pid_of_sleep(client)
        client.fs.stat("/")
        del client
        assert eventually(lambda: reaped(pid))
    assert eventually(lambda: no_more_than(before)), (holdings(), before)


def test_close_fails_what_waits() -> None:
    """With the closed error, and what is asked later too; a wait may still learn how the process was ended."""
    client = ExecServerClient.connect_in_process()
    process = client.start(["sleep", "1000"], pipe_stdin=True)
    reading = {"processId": process.process_id, "waitMs": 1_000_000}
    asks: list[Callable[[], Any]] = [
        lambda: client.call("process/read", reading),
        lambda: process.write(bytes(1_000_000)),
    ]
    waiting = Background(process.wait)
    calls = [Background(ask) for ask in asks]
    client.run(["true"])
    client.close()
    client.close()
    for call in [*calls, *(Background(ask) for ask in asks), Background(lambda: client.run(["true"]))]:
        with pytest.raises(ClosedError):
            call.result()
    with contextlib.suppress(ClosedError):
        assert waiting.result() == 137


def test_close_amid_calls() -> None:
    """Whoever asks in that moment gets an answer or the closed error, and nothing is left."""
    for number in range(10):
        client = ExecServerClient.connect_in_process()
        started: list[int | None] = []
        callers = [Background(lambda client=client: run_until_closed(client, started)) for _ in range(4)]
        assert eventually(lambda: len(started) > number)
        closers = [Background(client.close), Background(client.close)]
        for call in [*closers, *callers]:
            call.result()
        assert all(reaped(pid) for pid in started if pid)


def run_until_closed(client: ExecServerClient, started: list[int | None]) -> None:
    """Start one process after the other and note their pids."""
    with contextlib.suppress(ClosedError):
        while True:
            started.append(client.start(["sleep", "1000"]).pid)


@plain_only
def test_an_interrupt_ends_the_run(client: ExecServerClient, tmp_path: Path) -> None:
    """Ctrl-C while a command runs: it is dead, and the client is as before."""
    script = f"echo $$ > {tmp_path}/pid; kill -INT {os.getpid()}; sleep 1000"
    with pytest.raises(KeyboardInterrupt):
        client.run(["sh", "-c", script], timeout=PATIENCE)
    assert gone(int((tmp_path / "pid").read_text()))
    assert client.run(["echo", "on"], timeout=PATIENCE).stdout == b"on\n"


# ---- whole programs ------------------------------------------------------------------------------------------------


@plain_only
@pytest.mark.parametrize("prelude", ["", PATCH], ids=["plain", "patched"])
@pytest.mark.parametrize("at_exit", ["del client, process", "1 / 0"])
def test_the_end_of_the_program_ends_everything(prelude: str, at_exit: str) -> None:
    """Without a close, and right after the client was dropped."""
    script = f"""{prelude}
import execsrv
client = execsrv.ExecServerClient.connect_in_process()
process = client.start(["sh", "-c", "trap '' HUP; sleep 1000 & echo $!; wait"])
print(process.pid, next(iter(process)).chunk.decode(), flush=True)
{at_exit}
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE)
    assert all(gone(int(pid)) for pid in done.stdout.split())
    assert len(done.stdout.split()) == 2
    assert done.returncode == (at_exit == "1 / 0")


@plain_only
def test_the_same_under_gevent() -> None:
    """Every test of such a server in one program that ``gevent.monkey`` has patched."""
    script = f"{PATCH}import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"
    files = [__file__, *(str(Path(__file__).with_name(name)) for name in ALSO_IN_PROCESS)]
    command = [sys.executable, "-c", script, *files, "-k", CHOSEN, "-q", "-n0", "-p", "no:cacheprovider"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10 * PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
