"""Tests of execsrv.session.backends: every choice that settings have, with real servers."""

from __future__ import annotations

import dataclasses
import logging
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from endings import gone
from run_program import eventually
from workspaces import Workspace

from execsrv import ConnectError, SpawnError
from execsrv.session.backends import SessionExecutionBackends, session_execution_backends
from execsrv.session.config import SessionConfig
from execsrv.session.local_file_system import LocalFileSystem
from execsrv.session.unified_exec.errors import SandboxUnsupported
from execsrv.session.unified_exec.local_process import LocalSessionFactory
from execsrv.session.unified_exec.request import ExecRequest

SPAWN = SessionConfig(
    experimental_unified_exec_use_exec_server=True, experimental_unified_exec_spawn_local_exec_server=True
)

#: Prints what started it: the server, or this program.
PARENT = ["sh", "-c", "echo $PPID"]


def run(backends: SessionExecutionBackends, argv: Sequence[str], cwd: str = "/", **options: Any) -> bytes:
    """What a command writes, to its end."""
    request = ExecRequest(process_id=os.urandom(4).hex(), argv=argv, cwd=cwd, **options)
    process = backends.unified_exec_session_factory.open(request)
    output = b"".join(process.output())
    process.linger()
    assert process.exit_code == 0
    return output


def test_files_and_commands_are_in_the_same_place(backends: SessionExecutionBackends, workspace: Workspace) -> None:
    """Under the session's names, and really in the workspace."""
    files = backends.environment.file_system
    files.write_file(workspace.path("seed"), b"seed")
    assert run(backends, ["cat", "seed"], workspace.path()) == b"seed"
    run(backends, ["sh", "-c", "mkdir sub; pwd > sub/generated"], workspace.path())
    assert files.read_file(workspace.path("sub", "generated")) == os.fsencode(workspace.place) + b"\n"
    assert sorted(os.listdir(workspace.place)) == ["seed", "sub"]


def test_settings_choose_who_does_it(backend: str, backends: SessionExecutionBackends) -> None:
    """This program, its own server in it, or another program."""
    is_local = isinstance(backends.unified_exec_session_factory, LocalSessionFactory)
    assert is_local is isinstance(backends.environment.file_system, LocalFileSystem) is (backend == "local")
    assert (int(run(backends, PARENT)) == os.getpid()) is (backend in ("local", "in_process"))


def test_what_needs_a_sandbox_does_not_run(backends: SessionExecutionBackends, workspace: Workspace) -> None:
    """On no backend."""
    with pytest.raises(SandboxUnsupported):
        run(backends, ["touch", "file"], workspace.path(), sandbox="seatbelt")
    assert os.listdir(workspace.place) == []


def test_what_inherits_descriptors_runs_here(
    backends: SessionExecutionBackends, caplog: pytest.LogCaptureFixture
) -> None:
    """On every backend, which the log tells where it is not usual."""
    caplog.set_level(logging.INFO)
    read_end, write_end = os.pipe()
    with open(read_end, "rb") as reader, open(write_end, "wb") as writer:
        parent = run(backends, ["sh", "-c", f"echo $PPID; echo here > /dev/fd/{write_end}"], inherited_fds=[write_end])
        writer.close()
        assert reader.read() == b"here\n"
    assert int(parent) == os.getpid()
    is_local = isinstance(backends.unified_exec_session_factory, LocalSessionFactory)
    assert is_local is ("runs locally" not in caplog.text)


def test_a_spawned_server_goes_with_the_session() -> None:
    """And what it had started; a second close is harmless."""
    with session_execution_backends(SPAWN) as backends:
        server = int(run(backends, PARENT))
        sleeper = backends.unified_exec_session_factory.open(ExecRequest("s", ["sh", "-c", "echo $$; sleep 600"], "/"))
        pid = int(next(iter(sleeper.output())))
    assert gone(server) and gone(pid)
    backends.close()


def test_nothing_is_left_of_a_session(session_config: SessionConfig) -> None:
    """No thread and no descriptor."""
    for _ in range(2):  # the first one loads what is loaded once
        threads, descriptors = set(threading.enumerate()), set(os.listdir("/proc/self/fd"))
        with session_execution_backends(session_config) as backends:
            backends.unified_exec_session_factory.events.subscribe(lambda event: None)
            run(backends, ["true"])
    assert eventually(lambda: set(threading.enumerate()) <= threads)
    assert eventually(lambda: set(os.listdir("/proc/self/fd")) <= descriptors)


def test_the_command_of_the_server_can_be_given(tmp_path: Path) -> None:
    """It is run instead of the one that would be found."""
    command = ["sh", "-c", f'touch {tmp_path}/used; exec "{sys.executable}" -m execsrv']
    with session_execution_backends(SPAWN, command) as backends:
        assert run(backends, ["echo", "hello"]) == b"hello\n"
    assert os.listdir(tmp_path) == ["used"]


def test_a_server_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, before anything is done."""
    with pytest.raises(SpawnError):
        session_execution_backends(SPAWN, ["/not/there"])
    monkeypatch.setenv("EXECSRV_EXE", "/not/there")
    with pytest.raises(SpawnError, match="EXECSRV_EXE"):
        session_execution_backends(SPAWN)
    config = dataclasses.replace(SPAWN, experimental_unified_exec_exec_server_websocket_url="ws://127.0.0.1:1")
    with pytest.raises(ConnectError):
        session_execution_backends(config)


def test_a_url_wins_over_a_server_of_ones_own(server_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And goes on when the session has ended."""
    monkeypatch.setenv("EXECSRV_EXE", "/not/there")
    config = dataclasses.replace(SPAWN, experimental_unified_exec_exec_server_websocket_url=server_url)
    with session_execution_backends(config) as backends:
        server = run(backends, PARENT)
    with session_execution_backends(config) as backends:
        assert run(backends, PARENT) == server


def test_without_use_nothing_else_counts(server_url: str) -> None:
    """A URL and roots are of no effect then."""
    config = SessionConfig(
        experimental_unified_exec_exec_server_websocket_url=server_url,
        experimental_unified_exec_exec_server_workspace_root="/not/there",
        experimental_unified_exec_exec_server_local_root="/",
    )
    with session_execution_backends(config) as backends:
        assert int(run(backends, PARENT, "/tmp")) == os.getpid()


def test_the_local_root_is_the_working_directory_unless_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies in it is looked for in the workspace root."""
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    config = SessionConfig(
        experimental_unified_exec_use_exec_server=True,
        experimental_unified_exec_exec_server_workspace_root=str(tmp_path / "there"),
    )
    with session_execution_backends(config) as backends:
        backends.environment.file_system.write_file(str(tmp_path / "here" / "file"), b"x")
        assert run(backends, ["ls"], str(tmp_path / "here")) == b"file\n"
    assert os.listdir(tmp_path / "here") == []


def test_without_a_workspace_root_nothing_is_mapped(tmp_path: Path) -> None:
    """A local root alone says nothing."""
    config = SessionConfig(
        experimental_unified_exec_use_exec_server=True,
        experimental_unified_exec_exec_server_local_root=str(tmp_path / "elsewhere"),
    )
    with session_execution_backends(config) as backends:
        backends.environment.file_system.write_file(str(tmp_path / "file"), b"x")
        assert run(backends, ["ls"], str(tmp_path)) == b"file\n"
