"""The handshake, and what a handler tells about its machine."""

from __future__ import annotations

import os
import pwd
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import gevent
import pytest
from descriptors import open_descriptors

from execsrv.config import ExecServerConfig
from execsrv.errors import InvalidRequest
from execsrv.protocol.files import OpenParams
from execsrv.protocol.handshake import InitializeParams
from execsrv.protocol.processes import ProcessStartParams
from execsrv.server.handler import Handler, environment_info
from execsrv.server.workers import FILE_THREADS
from execsrv.version import __version__

if TYPE_CHECKING:
    from conftest import RecordingSink

    from execsrv.server.workers import Workers

CLIENT = InitializeParams("test")

#: Longest wait for anything, in seconds.
TIME_LIMIT_S = 20


@pytest.fixture
def handler(workers: Workers, sink: RecordingSink, nothing_left: Callable[[], None]) -> Iterator[Handler]:
    """A handler before the handshake."""
    handler = Handler(ExecServerConfig(), workers, sink)
    yield handler
    handler.end("connectionClosed", 10)


def refusal(function: Callable[..., object], *args: object) -> tuple[str, str]:
    """Kind and message of a refusal."""
    with pytest.raises(InvalidRequest) as caught:
        function(*args)
    return caught.value.kind, caught.value.message


def test_the_handshake_has_two_steps(handler: Handler) -> None:
    """Each opens what comes next, and the first happens once."""
    assert refusal(handler.check_ready)[1] == "client must call initialize before using exec methods"
    assert refusal(handler.initialized) == ("notInitialized", "received `initialized` notification before `initialize`")
    handler.initialize(CLIENT)
    not_yet = ("notInitialized", "client must send initialized before using exec methods")
    assert refusal(handler.check_ready) == not_yet
    repeated = ("alreadyInitialized", "initialize may only be sent once per connection")
    assert refusal(handler.initialize, CLIENT) == repeated
    handler.initialized()
    handler.check_ready()
    assert refusal(handler.initialize, CLIENT) == repeated
    handler.initialized()
    handler.check_ready()


def test_initialize_tells_who_is_there(workers: Workers, sink: RecordingSink) -> None:
    """Version, capabilities, and a session id of each connection's own."""
    config = ExecServerConfig()
    first, second = (Handler(config, workers, sink).initialize(CLIENT) for _ in range(2))
    assert first.protocol_version == "exec-server.v0"
    assert first.session_id != second.session_id and first.session_id
    assert first.capabilities["processAck"] is True
    assert all(isinstance(value, bool) for value in first.capabilities.values())
    assert first.environment_info == environment_info()


def test_a_failed_initialize_does_not_count(
    handler: Handler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A server whose directory is gone must not be beyond hope."""
    (tmp_path / "gone").mkdir()
    before = os.getcwd()
    os.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    try:
        handler.initialize(CLIENT)
    except OSError:
        os.chdir(before)
        handler.initialize(CLIENT)
    finally:
        os.chdir(before)


def test_the_environment_is_this_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's shell and home by the variables, else by the user's entry."""
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    monkeypatch.setenv("HOME", "/somewhere")
    info = environment_info()
    assert (info.shell.name, info.shell.path, info.user_home_dir) == ("fish", "/usr/bin/fish", "/somewhere")
    assert (info.executor_version, info.cwd) == (__version__, os.getcwd())
    assert (info.platform_os, info.temp_dir) == (sys.platform, tempfile.gettempdir())
    monkeypatch.delenv("SHELL")
    monkeypatch.delenv("HOME")
    user, info = pwd.getpwuid(os.getuid()), environment_info()
    assert (info.shell.path, info.user_home_dir) == (user.pw_shell or "/bin/sh", user.pw_dir)


def test_the_end_kills_the_processes_of_both_dialects(handler: Handler, sink: RecordingSink) -> None:
    """Twice is harmless."""
    env = {"PATH": os.environ["PATH"]}
    handler.processes.start(ProcessStartParams("p", ["sleep", "1000"], "/", env, False))
    handler.first_cut.exec(ProcessStartParams("q", ["sleep", "1000"], "/", env, False))  # type: ignore[arg-type]
    handler.end("shutdown", 10)
    handler.end("connectionClosed", 10)
    assert sink.wait_exited("p").reason == "shutdown"
    assert sink.of("q")[-1].exit_code == 137


def test_the_end_closes_what_is_open(handler: Handler, nothing_left: Callable[[], None], tmp_path: Path) -> None:
    """That of the processes alone does not; what is written and not committed is gone, and nothing opens any more."""
    (tmp_path / "file").touch()
    before = open_descriptors()
    handler.files.open(OpenParams("r", f"{tmp_path}/file"))
    handler.files.open(OpenParams("w", f"{tmp_path}/new", "write"))
    handler.end_processes("connectionClosed", 10)
    assert len(open_descriptors() - before) == 2
    for _ in range(2):
        handler.end("connectionClosed", 10)
        nothing_left()
    handler.files.open(OpenParams("late", f"{tmp_path}/file"))
    nothing_left()
    assert os.listdir(tmp_path) == ["file"]


def test_files_are_closed_when_there_is_no_thread_for_it(
    handler: Handler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else would ever do it."""

    def no_thread(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("execsrv.server.threads._start_thread", no_thread)
    before = open_descriptors()
    handler.files.open(OpenParams("w", f"{tmp_path}/file", "write"))
    opened = open_descriptors() - before
    handler.end("connectionClosed", 10)
    assert opened and not opened & open_descriptors()


def test_the_end_waits_for_no_disk(handler: Handler, workers: Workers, tmp_path: Path) -> None:
    """When all threads are stuck, files are closed as soon as one is free."""
    before = open_descriptors()
    handler.files.open(OpenParams("w", f"{tmp_path}/file", "write"))
    opened = open_descriptors() - before
    stuck = threading.Event()
    jobs = [gevent.spawn(workers.files.call, stuck.wait, TIME_LIMIT_S) for _ in range(FILE_THREADS)]
    with gevent.Timeout(TIME_LIMIT_S / 2):
        handler.end("connectionClosed", 10)
    stuck.set()
    assert all(job.get(timeout=TIME_LIMIT_S) for job in jobs)
    with gevent.Timeout(TIME_LIMIT_S):
        while opened & open_descriptors():
            gevent.sleep(0.001)
