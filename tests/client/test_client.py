"""Tests of execsrv.client.client and execsrv.client.router against a fake server."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from background import Background
from fake_server import WAIT, FakeServer, Message

from execsrv import (
    CallTimeout,
    ClosedError,
    Disconnected,
    EnvPolicy,
    ExecServerClient,
    InitializeTimeout,
    ProtocolError,
    ServerError,
    Size,
    TimeoutExpired,
    UnsupportedError,
)
from execsrv.client.pacing import WINDOW_BYTES


def live(fake: FakeServer, output: bytes = b"hi", code: int = 0) -> None:
    """Let each process that is started write something and end."""

    def start(message: Message) -> None:
        process_id = message["params"]["processId"]
        fake.answer(message, {"processId": process_id})
        fake.notify("process/started", processId=process_id, pid=42)
        fake.output(process_id, 1, output)
        fake.exited(process_id, 2, code)
        fake.closed(process_id, 3)

    fake.handlers["process/start"] = start


# ---- handshake ---------------------------------------------------------------------------------------------------


def test_handshake(fake: FakeServer) -> None:
    """The name goes first; the server's account of itself is kept."""
    with fake.connect(client_name="me") as client:
        assert fake.wait_for("initialize")["params"] == {"clientName": "me"}
        fake.wait_for("initialized")
        assert client.server_info.session_id == "fake"
        assert client.server_info.capabilities["processAck"] is True
        assert client.server_info.cwd == "/fake"


def test_default_name(fake: FakeServer, fake_client: ExecServerClient) -> None:
    """Servers can tell this client from others."""
    assert fake.wait_for("initialize")["params"] == {"clientName": "execsrv-python"}


def test_handshake_that_is_not_answered(fake: FakeServer) -> None:
    """The connection is given up in time."""
    del fake.handlers["initialize"]
    with pytest.raises(InitializeTimeout, match="within 0.05 s") as caught:
        fake.connect(initialize_timeout=0.05)
    assert isinstance(caught.value, TimeoutError)
    assert fake.ended.wait(WAIT)


def test_handshake_that_is_refused(fake: FakeServer) -> None:
    """The server's error comes through and the connection ends."""
    fake.handlers["initialize"] = lambda message: fake.refuse(message, message="not today")
    with pytest.raises(ServerError, match="not today"):
        fake.connect()
    assert fake.ended.wait(WAIT)


def test_handshake_with_an_odd_result(fake: FakeServer) -> None:
    """A server that does not tell its protocol is none of ours."""
    fake.handlers["initialize"] = lambda _: {"version": "x"}
    with pytest.raises(ProtocolError, match="initialize"):
        fake.connect()


def test_connection_that_ends_in_the_handshake(fake: FakeServer) -> None:
    """It is a closed one."""
    fake.handlers["initialize"] = lambda _: fake.die()
    with pytest.raises(ClosedError):
        fake.connect()


def test_server_of_the_first_kind(fake: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells nothing about itself, does not count events and never says that a process is closed: it can be used."""
    monkeypatch.setattr("execsrv.client.process_state.UNTOLD_SECONDS", 0.05)
    fake.handlers["initialize"] = lambda _: {"protocolVersion": "exec-server.v0"}
    fake.handlers["process/wait"] = lambda message: fake.refuse(message, message="unknown method: process/wait")

    def start(message: Message) -> None:
        process_id = message["params"]["processId"]
        fake.answer(message, {"processId": process_id})
        fake.notify("process/output", processId=process_id, stream="stdout", chunk="aGk=")
        fake.notify("process/exited", processId=process_id, exitCode=3)

    fake.handlers["process/start"] = start
    with fake.connect() as client:
        assert (client.server_info.session_id, client.server_info.environment_info) == (None, None)
        done = client.run(["cmd"], cwd="/", env={}, drain_timeout=0.05)
        assert (done.returncode, done.stdout) == (3, b"hi")
        process = client.start(["cmd"], cwd="/", env={})
        assert [output.chunk for output in process] == [b"hi"]
        assert (process.returncode, process.signal, process.reason) == (3, None, "exited")
        with pytest.raises(ServerError, match="unknown method"):
            client.call("process/wait")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cwd": None}, "cwd must be given: the server does not tell its own"),
        ({"env": None}, "an environment that is not given whole needs envPolicy"),
        ({"env_policy": EnvPolicy()}, "an environment that is not given whole needs envPolicy"),
        ({"time_limit": 1}, "time_limit needs processTimeout"),
        ({"drain_limit": 1}, "drain_limit needs processDrainTimeout"),
    ],
)
def test_what_a_server_would_ignore(fake: FakeServer, options: dict[str, Any], message: str) -> None:
    """It is not even asked for it."""
    fake.handlers["initialize"] = lambda _: {"protocolVersion": "exec-server.v0"}
    with fake.connect() as client, pytest.raises(UnsupportedError, match=message):
        client.start(["cmd"], **{"cwd": "/", "env": {}, **options})
    assert fake.of("process/start") == []


def test_what_a_server_cannot_do_to_a_process(fake: FakeServer) -> None:
    """To end its input, or to let it end by itself; killing is always possible."""
    fake.handlers["initialize"] = lambda _: {"protocolVersion": "exec-server.v0"}
    with fake.connect() as client:
        process = client.start(["cmd"], cwd="/", env={}, pipe_stdin=True)
        with pytest.raises(UnsupportedError, match="input needs processCloseStdin"):
            process.communicate(b"data")
        with pytest.raises(UnsupportedError, match="terminate needs processGracefulTerminate"):
            process.terminate()
        assert process.kill()


# ---- calls -------------------------------------------------------------------------------------------------------


def test_call_is_raw(fake: FakeServer, fake_client: ExecServerClient) -> None:
    """Params and result are as on the wire; no params are an empty object."""
    fake.handlers["any/method"] = lambda message: {"got": message["params"]}
    assert fake_client.call("any/method", {"aB": 1}) == {"got": {"aB": 1}}
    assert fake_client.call("any/method") == {"got": {}}
    with pytest.raises(CallTimeout):
        fake_client.call("silent", timeout=0.01)


# ---- start -------------------------------------------------------------------------------------------------------


def test_start_without_cwd_and_env_means_the_servers_own(fake: FakeServer, fake_client: ExecServerClient) -> None:
    """Nothing of this program's environment travels unasked."""
    fake_client.start(["cmd", Path("arg")])
    params = fake.wait_for("process/start")["params"]
    assert params["argv"] == ["cmd", "arg"]
    assert params["cwd"] == "/fake"
    assert params["env"] == {}
    assert params["envPolicy"]["inherit"] == "all"
    assert params["envPolicy"]["ignoreDefaultExcludes"] is True
    assert (params["tty"], params["pipeStdin"], params["windowBytes"]) == (False, False, WINDOW_BYTES)


def test_start_with_an_environment_means_exactly_that(fake: FakeServer, fake_client: ExecServerClient) -> None:
    """As with subprocess."""
    fake_client.start(["cmd"], env={"A": "1"}, cwd=b"/caf\xe9")
    params = fake.wait_for("process/start")["params"]
    assert (params["env"], params["envPolicy"], params["cwd"]) == ({"A": "1"}, None, "file:///caf%E9")


def test_start_passes_options_on(fake: FakeServer, fake_client: ExecServerClient) -> None:
    """Each under its name on the wire."""
    policy = EnvPolicy("core", exclude=["X*"])
    process = fake_client.start(
        ["cmd"],
        tty=True,
        size=Size(5, 6),
        arg0="zero",
        pipe_stdin=True,
        process_id="mine",
        env_policy=policy,
        time_limit=1.5,
        drain_limit=0.0001,
    )
    params = fake.wait_for("process/start")["params"]
    assert process.process_id == params["processId"] == "mine"
    assert (params["tty"], params["size"], params["arg0"]) == (True, {"rows": 5, "cols": 6}, "zero")
    assert (params["pipeStdin"], params["envPolicy"]["exclude"]) == (True, ["X*"])
    assert (params["timeoutMs"], params["drainTimeoutMs"]) == (1500, 1)


@pytest.mark.parametrize("argv", ["ls -l", b"ls"])
def test_start_of_one_string_is_refused(fake_client: ExecServerClient, argv: Any) -> None:
    """It would be taken for a list of letters."""
    with pytest.raises(TypeError, match="argv is a list"):
        fake_client.start(argv)


def test_ids_differ(fake_client: ExecServerClient) -> None:
    """Nobody has to make them up."""
    assert len({fake_client.start(["cmd"]).process_id for _ in range(100)}) == 100


def test_no_window_without_the_capability(make_fake: Callable[..., FakeServer]) -> None:
    """Then output that is not read goes to disk, and nothing is acknowledged."""
    fake = make_fake(capabilities={})
    with fake.connect() as client:
        process = client.start(["cmd"], cwd="/", env={}, process_id="p")
        assert fake.wait_for("process/start")["params"]["windowBytes"] is None
        for seq in range(1, 101):
            fake.output("p", seq, b"x" * 65536)
        fake.exited("p", 101)
        fake.closed("p", 102)
        assert process.wait(WAIT) == 0
        assert len(process.communicate()[0]) == 100 * 65536
        assert fake.of("process/ack") == []


# ---- flow control ------------------------------------------------------------------------------------------------


def test_unread_output_is_not_acknowledged(fake: FakeServer, fake_client: ExecServerClient) -> None:
    """Reading it is what acknowledges."""
    process = fake_client.start(["cmd"], process_id="p")
    fake.output("p", 1, b"x" * WINDOW_BYTES)
    fake_client.call("process/terminate", {"processId": "other"})
    assert fake.of("process/ack") == []
    next(iter(process))
    assert fake.wait_for("process/ack")["params"] == {"processId": "p", "seq": 1}


def test_output_that_nobody_wants_is_acknowledged(fake: FakeServer, fake_client: ExecServerClient) -> None:
    """And dropped."""
    fake_client.start(["cmd"], process_id="p", capture=False)
    fake.output("p", 1, b"x")
    assert fake.wait_for("process/ack")["params"] == {"processId": "p", "seq": 1}


def test_callback_may_wait_for_output_that_it_is_to_get(fake: FakeServer, fake_client: ExecServerClient) -> None:
    """Though it holds the output of every process, a run inside it sees its own to the end."""
    outcomes: list[subprocess.CompletedProcess[bytes]] = []
    done = threading.Event()

    def run_more(event: object) -> None:
        if not outcomes:
            outcomes.append(fake_client.run(["more"], timeout=WAIT))
            done.set()

    def start(message: Message) -> None:
        """A server that goes on only when its window is open again."""
        process_id = message["params"]["processId"]
        fake.answer(message, {"processId": process_id})
        if message["params"]["argv"] == ["first"]:
            return fake.output(process_id, 1, b"go")
        fake.output(process_id, 1, b"x" * WINDOW_BYTES)
        threading.Thread(target=finish, args=(process_id,), daemon=True).start()

    def finish(process_id: str) -> None:
        fake.wait_for("process/ack")
        fake.output(process_id, 2, b"rest")
        fake.exited(process_id, 3)
        fake.closed(process_id, 4)

    fake.handlers["process/start"] = start
    fake_client.events.subscribe(run_more, kind="output")
    first = fake_client.start(["first"])
    assert done.wait(WAIT)
    assert len(outcomes[0].stdout) == WINDOW_BYTES + 4
    assert first.poll() is None


# ---- run ---------------------------------------------------------------------------------------------------------


def test_run_returns_what_subprocess_does(fake: FakeServer, fake_client: ExecServerClient) -> None:
    """A CompletedProcess."""
    live(fake, b"out\r\n", 3)
    done = fake_client.run(["cmd"])
    assert (done.args, done.returncode, done.stdout, done.stderr) == (["cmd"], 3, b"out\r\n", b"")
    assert fake_client.run(["cmd"], text=True).stdout == "out\n"
    assert [message["params"]["pipeStdin"] for message in fake.of("process/start")] == [False, False]


def test_run_with_check(fake: FakeServer, fake_client: ExecServerClient) -> None:
    """Another code than 0 is subprocess's own error."""
    live(fake, b"out", 3)
    with pytest.raises(subprocess.CalledProcessError) as caught:
        fake_client.run(["cmd"], check=True)
    assert (caught.value.returncode, caught.value.cmd, caught.value.output) == (3, ["cmd"], b"out")


def test_run_that_takes_too_long(fake: FakeServer, fake_client: ExecServerClient) -> None:
    """The process is killed, and the error has all output until its death."""

    def kill(message: Message) -> None:
        fake.output("p", 2, b" last")
        fake.exited("p", 3, 137)
        fake.closed("p", 4)
        fake.answer(message, {"running": True})

    fake.handlers["process/terminate"] = kill
    running = Background(lambda: fake_client.run(["cmd"], process_id="p", timeout=0.2))
    fake.wait_for("process/start")
    fake.output("p", 1, b"first")
    with pytest.raises(TimeoutExpired) as caught:
        running.result()
    assert (caught.value.output, caught.value.stderr, caught.value.timeout) == (b"first last", b"", 0.2)


def test_run_whose_start_takes_too_long(fake: FakeServer, fake_client: ExecServerClient) -> None:
    """It is the same timeout."""
    del fake.handlers["process/start"]
    with pytest.raises(TimeoutExpired):
        fake_client.run(["cmd"], timeout=0.01)
    fake.wait_for("process/terminate")


def test_run_of_a_lost_connection(fake: FakeServer, fake_client: ExecServerClient) -> None:
    """Half an output is no success."""
    running = Background(lambda: fake_client.run(["cmd"], process_id="p"))
    fake.wait_for("process/start")
    fake.output("p", 1, b"half")
    fake.die()
    with pytest.raises(ClosedError, match="exec-server transport closed"):
        running.result()


# ---- the end -----------------------------------------------------------------------------------------------------


def test_lost_connection_is_told_everywhere(fake: FakeServer, fake_client: ExecServerClient) -> None:
    """To handles, receivers and callers, also those that come later."""
    process, receiver = fake_client.start(["cmd"]), fake_client.event_receiver(WAIT)
    waits = [Background(lambda: wait()) for wait in (process.wait, process.communicate, lambda: fake_client.call("x"))]
    fake.wait_for("x")
    fake.die()
    for wait in waits:
        with pytest.raises(ClosedError):
            wait.result()
    assert isinstance(next(receiver), Disconnected)
    for later in (process.poll, process.kill, lambda: fake_client.call("x"), lambda: fake_client.start(["cmd"])):
        with pytest.raises(ClosedError):
            later()


def test_closed_client_refuses_everything(fake: FakeServer) -> None:
    """And says that it was closed here."""
    client = fake.connect()
    process = client.start(["cmd"])
    client.close()
    client.close()
    for use in (process.poll, process.wait, lambda: client.call("x"), lambda: client.start(["cmd"])):
        with pytest.raises(ClosedError, match="closed by this client"):
            use()
    assert list(client.event_receiver()) == []
    assert fake.ended.wait(WAIT)


def test_closing_waits_for_callbacks(fake: FakeServer) -> None:
    """They get what came before."""
    client = fake.connect()
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def be_slow(event: object) -> None:
        begun.set()
        assert go_on.wait(WAIT)
        ended.set()

    client.events.subscribe(be_slow, kind="started")
    fake.notify("process/started", processId="x", pid=1)
    assert begun.wait(WAIT)
    closing = Background(client.close)
    assert fake.ended.wait(WAIT)
    assert not ended.wait(0.1)
    assert closing.is_running()
    go_on.set()
    closing.result()
    assert ended.is_set()


def test_callback_may_close_the_client(fake: FakeServer) -> None:
    """Without waiting for itself."""
    client = fake.connect()
    closed = threading.Event()

    def close(event: object) -> None:
        client.close()
        closed.set()

    client.events.subscribe(close)
    fake.notify("process/started", processId="x", pid=1)
    assert closed.wait(WAIT)


def test_events_of_processes_that_were_started_raw(fake: FakeServer, fake_client: ExecServerClient) -> None:
    """They have no handle, but are on the bus."""
    receiver = fake_client.event_receiver(WAIT, process_id="raw")
    fake_client.call("process/start", {"processId": "raw", "argv": ["cmd"]})
    fake.output("raw", 1, b"hello")
    fake.notify("command/exec/exited", processId="raw", exitCode=0)
    event, other = next(receiver), next(receiver)
    assert event.chunk == b"hello"  # type: ignore[union-attr]
    assert other.exit_code == 0  # type: ignore[union-attr]
