"""Tests of execsrv.session.unified_exec.server_process, with real servers, and fakes for those that offer little."""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from endings import gone
from exec_fakes import WAIT, FakeFactory, in_background

from execsrv import ExecServerClient, ServerInfo
from execsrv.session.path_mapper import PathMapper
from execsrv.session.unified_exec.errors import (
    ConnectionLost,
    ProcessIdInUse,
    SandboxUnsupported,
    StartFailed,
    WriteFailed,
)
from execsrv.session.unified_exec.request import MAX_INPUT_BYTES, ExecProcess, ExecRequest, Size
from execsrv.session.unified_exec.server_process import ExecServerSessionFactory


@pytest.fixture(params=["in_process", "spawned"])
def client(request: pytest.FixtureRequest) -> ExecServerClient:
    """A client of a real server."""
    found: ExecServerClient = request.getfixturevalue(f"{request.param}_client")
    return found


@pytest.fixture
def local() -> FakeFactory:
    """What starts commands that no server can."""
    return FakeFactory()


@pytest.fixture
def factory(client: ExecServerClient, local: FakeFactory) -> ExecServerSessionFactory:
    """What starts commands on the server."""
    return ExecServerSessionFactory(client, None, local)


def request_of(line: str, **options: Any) -> ExecRequest:
    """A line for sh, under an id of its own."""
    return ExecRequest(os.urandom(4).hex(), ["sh", "-c", line], "/", **options)


def read_until(output: Iterator[bytes], end: bytes) -> bytes:
    """What comes until ``end`` is there."""
    data = b""
    while end not in data:
        data += next(output)
    return data


def finish(process: ExecProcess) -> tuple[bytes, int | None]:
    """All that it writes, and its code."""
    return b"".join(process.output()), process.exit_code


def test_output_and_code(factory: ExecServerSessionFactory) -> None:
    """Of both streams."""
    process = factory.open(request_of("echo out; echo err >&2; exit 3"))
    output, code = finish(process)
    assert (sorted(output.split()), code) == ([b"err", b"out"], 3)
    process.linger()


def test_code_of_a_signal(factory: ExecServerSessionFactory) -> None:
    """128 and its number."""
    assert finish(factory.open(request_of("kill -TERM $$")))[1] == 143


def test_all_bytes(factory: ExecServerSessionFactory, tmp_path: Path) -> None:
    """As they are."""
    data = os.urandom(2_000_001)
    (tmp_path / "data").write_bytes(data)
    assert finish(factory.open(request_of(f"cat {tmp_path}/data"))) == (data, 0)


def test_what_it_runs_with(client: ExecServerClient, local: FakeFactory, tmp_path: Path) -> None:
    """The directory is mapped, variables are laid over the server's, and stdin is empty."""
    factory = ExecServerSessionFactory(client, PathMapper("/session", str(tmp_path)), local)
    (tmp_path / "sub").mkdir()
    argv = ["sh", "-c", "pwd; echo $HOME$NEW; cat"]
    request = ExecRequest(os.urandom(4).hex(), argv, "/session/sub", {"NEW": "new"})
    assert finish(factory.open(request))[0].decode().splitlines() == [f"{tmp_path}/sub", os.environ["HOME"] + "new"]


def test_terminal(factory: ExecServerSessionFactory) -> None:
    """It has its size, takes input in order, and Ctrl-C interrupts."""
    line = "stty size; while read -r line; do echo got $line; done"
    process = factory.open(request_of(line, tty=True, size=Size(33, 99)))
    output = process.output()
    read_until(output, b"33 99\r\n")
    process.write(b"one\n", WAIT)
    process.write(b"two\n", WAIT)
    read_until(output, b"got two")
    process.write(b"\x03", WAIT)
    for _ in output:
        pass
    assert process.exit_code == 130
    process.write(b"late", WAIT)


def test_write_does_not_wait_for_a_reader(factory: ExecServerSessionFactory, tmp_path: Path) -> None:
    """What is not taken in time is read later, in order."""
    line = f"stty raw -echo; echo ready; read go < {tmp_path}/go; head -c 2500000 | md5sum"
    os.mkfifo(tmp_path / "go")
    process = factory.open(request_of(line, tty=True))
    output = process.output()
    read_until(output, b"ready")
    data = os.urandom(2_500_000)
    process.write(data[:1_500_000], 0.01)
    process.write(data[1_500_000:], 0.01)
    (tmp_path / "go").write_text("go\n")
    assert read_until(output, b"-").split()[0] == hashlib.md5(data).hexdigest().encode()
    assert finish(process)[1] == 0


def test_input_that_nobody_reads_is_bounded(factory: ExecServerSessionFactory) -> None:
    """It is refused when too much waits; the process can be ended all the same."""
    process = factory.open(request_of("stty raw -echo; echo ready; exec sleep 1000", tty=True))
    read_until(process.output(), b"ready")
    process.write(bytes(MAX_INPUT_BYTES // 2), 0.01)
    with pytest.raises(WriteFailed):
        process.write(bytes(MAX_INPUT_BYTES), 0.01)
    process.terminate(WAIT)
    assert finish(process)[1] == 137


def test_descendants_are_not_waited_for(factory: ExecServerSessionFactory) -> None:
    """They live, and can write, until the process is terminated."""
    process = factory.open(request_of("(while echo x; do sleep 0.01; done) & echo $!"))
    output, code = finish(process)
    left = int(output.split()[-1] if output.split()[0] == b"x" else output.split()[0])
    lingering = in_background(process.linger)
    assert code == 0
    os.kill(left, 0)
    process.terminate(WAIT)
    process.terminate(WAIT)
    lingering.result(WAIT)
    assert gone(left)


@pytest.mark.parametrize("argv, cwd", [(["/none/such"], "/"), (["sh"], "/none"), (["a\0b"], "/"), (["sh"], "/\ud800")])
def test_start_that_fails(factory: ExecServerSessionFactory, argv: list[str], cwd: str) -> None:
    """The server says why."""
    with pytest.raises(StartFailed) as caught:
        factory.open(ExecRequest(os.urandom(4).hex(), argv, cwd))
    assert caught.value.reason and type(caught.value) is StartFailed


def test_id_that_is_in_use(factory: ExecServerSessionFactory) -> None:
    """Or was until a moment ago: it is told from all that a start can fail of."""
    request = request_of("exec sleep 1000")
    process = factory.open(request)
    for _ in range(2):
        with pytest.raises(ProcessIdInUse):
            factory.open(request)
        process.terminate(WAIT)
        assert finish(process)[1] == 137
        process.linger()


def test_sandbox(factory: ExecServerSessionFactory, local: FakeFactory) -> None:
    """It is never left out, neither there nor here."""
    for fds in ([], [1]):
        with pytest.raises(SandboxUnsupported):
            factory.open(request_of("echo", sandbox="read-only", inherited_fds=fds))
    assert local.opened == []


def test_inherited_descriptors(
    factory: ExecServerSessionFactory, local: FakeFactory, caplog: pytest.LogCaptureFixture
) -> None:
    """Such a command runs here, which the log tells."""
    request = request_of("echo", inherited_fds=[1])
    with caplog.at_level(logging.INFO):
        assert factory.open(request) is local.processes[0]
    assert local.opened == [request]
    assert "runs locally" in caplog.text


def test_shell_and_events_are_the_servers(factory: ExecServerSessionFactory, client: ExecServerClient) -> None:
    """As it tells; the bus is the client's."""
    assert client.server_info.environment_info
    assert factory.shell == client.server_info.environment_info.shell.path
    assert factory.events is client.events


def test_lost_connection(local: FakeFactory) -> None:
    """All ends with an error of its own, whatever was asked."""
    command, pipe = [sys.executable, "-m", "execsrv"], subprocess.PIPE
    server = subprocess.Popen(command, stdin=pipe, stdout=pipe, bufsize=0)
    assert server.stdin and server.stdout
    with server, ExecServerClient.connect_stdio(server.stdout, server.stdin) as client:
        factory = ExecServerSessionFactory(client, None, local)
        process = factory.open(request_of("echo ready; exec sleep 1000", tty=True))
        output = process.output()
        read_until(output, b"ready")
        server.kill()
        with pytest.raises(ConnectionLost):
            for _ in output:
                pass
        with pytest.raises(ConnectionLost):
            process.write(b"in", WAIT)
        with pytest.raises(ConnectionLost):
            factory.open(request_of("echo"))
        assert process.exit_code is None
        process.terminate(WAIT)
        process.linger()


class FakeClient:
    """A client of one of the first servers, which tell nothing of themselves; it notes what it is asked to start."""

    server_info = ServerInfo("exec-server.v0")

    def __init__(self) -> None:
        self.started: list[dict[str, Any]] = []

    def start(self, argv: list[str], **options: Any) -> None:
        """See ExecServerClient."""
        self.started.append(options)


def test_first_servers(local: FakeFactory) -> None:
    """They take only whole environments, and the shell is a guess."""
    client = FakeClient()
    factory = ExecServerSessionFactory(client, None, local)  # type: ignore[arg-type]
    factory.open(ExecRequest("1", ["prog"], "/project", {"NEW": "new"}))
    (options,) = client.started
    assert options["env"].keys() == {"PATH", "NEW"} and options["env_policy"] is None
    assert factory.shell == "bash"
