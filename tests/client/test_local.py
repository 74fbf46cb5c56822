"""Tests of execsrv.client.local with real child servers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from endings import gone
from fake_server import INITIALIZE_RESULT

from execsrv import ClosedError, InitializeTimeout, JsonError, ProtocolError, SpawnError, spawn_local_exec_server

WAIT = 20.0

SERVER = textwrap.dedent(
    """
    import json, os, signal, sys
    result = {result!r}
    for line in sys.stdin:
        message = json.loads(line)
        if message["method"] == "initialize":
            print(json.dumps({{"id": message["id"], "result": result}}), flush=True)
        elif message["method"] == "pid":
            print(json.dumps({{"id": message["id"], "result": {{"pid": os.getpid()}}}}), flush=True)
    {at_end}
    """
)


def fake_command(at_end: str = "") -> list[str]:
    """A server that shakes hands, tells its pid, and does ``at_end`` when its stdin ends."""
    return [sys.executable, "-c", SERVER.format(result=INITIALIZE_RESULT, at_end=at_end)]


def exists(pid: int) -> bool:
    """Is there such a process, be it a zombie?"""
    return Path(f"/proc/{pid}").exists()


def test_default_server_is_this_projects_own() -> None:
    """Run by this interpreter; closing the client ends it and all that it runs, and reaps it."""
    with spawn_local_exec_server() as client:
        process = client.start(["sleep", "1000"])
        server = int(client.run(["sh", "-c", "echo $PPID"], text=True).stdout)
        assert os.readlink(f"/proc/{server}/exe") == os.path.realpath(sys.executable)
        sleeping = process.pid
        assert sleeping and exists(sleeping)
    assert not exists(server)
    assert not exists(sleeping)


def test_given_command_is_run() -> None:
    """Any server that speaks over stdio will do."""
    with spawn_local_exec_server(fake_command(), client_name="me") as client:
        pid = client.call("pid")["pid"]
        assert client.server_info.session_id == "fake"
    assert not exists(pid)


def test_server_has_a_session_of_its_own() -> None:
    """A Ctrl-C in the terminal does not reach it."""
    with spawn_local_exec_server(fake_command()) as client:
        pid = client.call("pid")["pid"]
        assert os.getsid(pid) == pid


@pytest.mark.parametrize("is_stopped", [True, False])
def test_server_whose_stdin_does_not_end_is_asked(monkeypatch: pytest.MonkeyPatch, is_stopped: bool) -> None:
    """A stopped one too, so that its processes end with it; here another holds its stdin as well."""
    monkeypatch.setattr("execsrv.client.channel.CLOSE_SECONDS", 0.2)
    monkeypatch.setattr("execsrv.client.local.EXIT_SECONDS", 0.2)
    with spawn_local_exec_server() as client:
        process = client.start(["sleep", "1000"])
        sleeping = process.pid
        server = int(client.run(["sh", "-c", "echo $PPID"], text=True).stdout)
        held = os.open(f"/proc/{server}/fd/0", os.O_WRONLY)
        if is_stopped:
            os.kill(server, signal.SIGSTOP)
    os.close(held)
    assert gone(server) and gone(sleeping)


def test_server_that_stays_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """However it ignores the end of its stdin."""
    monkeypatch.setattr("execsrv.client.channel.CLOSE_SECONDS", 0.2)
    monkeypatch.setattr("execsrv.client.local.EXIT_SECONDS", 0.2)
    monkeypatch.setattr("execsrv.client.local.TERM_SECONDS", 0.2)
    with spawn_local_exec_server(fake_command("while True: signal.pause()")) as client:
        pid = client.call("pid")["pid"]
    assert gone(pid)


def test_missing_command() -> None:
    """The error names it."""
    with pytest.raises(SpawnError, match="/nonexistent/server --flag: .*No such file"):
        spawn_local_exec_server(["/nonexistent/server", "--flag"])


def test_command_that_ends_at_once() -> None:
    """The error has its status."""
    with pytest.raises(SpawnError, match="ended with status 7 before it answered"):
        spawn_local_exec_server(["sh", "-c", "exit 7"])


def test_command_that_says_nothing() -> None:
    """It is given up in time, and ended."""
    with pytest.raises(InitializeTimeout):
        spawn_local_exec_server(["sh", "-c", "cat >/dev/null"], initialize_timeout=0.1)


@pytest.mark.parametrize(("command", "error"), [(["echo", "Welcome!"], JsonError), (["cat"], ProtocolError)])
def test_command_that_is_no_server(command: list[str], error: type[ClosedError]) -> None:
    """What it said is judged, not that it ended."""
    with pytest.raises(error):
        spawn_local_exec_server(command)


def test_stderr_is_inherited() -> None:
    """What a server has to say about itself is seen."""
    script = "from execsrv import *; spawn_local_exec_server(['sh', '-c', 'echo complaint >&2'])"
    done = subprocess.run([sys.executable, "-c", script], stderr=subprocess.PIPE, timeout=WAIT)
    assert b"complaint\n" in done.stderr
