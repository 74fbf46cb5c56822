"""Tests of execsrv.session.server_program."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from execsrv import SpawnError, spawn_local_exec_server
from execsrv.session.server_program import server_command


class Machine:
    """A machine with nothing on it but what a test puts there."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._root = root
        self.monkeypatch = monkeypatch
        monkeypatch.setenv("PATH", f"{root / 'path1'}:{root / 'path2'}")
        monkeypatch.delenv("EXECSRV_EXE", raising=False)
        monkeypatch.setattr(sys, "argv", [self.program("app/agent")])
        monkeypatch.setattr(sys, "executable", self.program("python/python3"))

    def program(self, name: str) -> str:
        """Put a program somewhere; return its path."""
        path = self._root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return str(path)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """An empty machine."""
    return Machine(tmp_path, monkeypatch)


def test_the_best_that_is_there_is_taken(machine: Machine) -> None:
    """What is added later comes before all that is there already."""
    assert server_command() == [sys.executable, "-m", "execsrv"]
    codex = machine.program("path1/codex")
    assert server_command() == [codex, "exec-server"]
    for name in ("path2/codex-exec-server", "path2/execsrv", "path1/execsrv", "python/execsrv", "app/execsrv"):
        program = machine.program(name)
        assert server_command() == [program]
    other = machine.program("other/server")
    machine.monkeypatch.setenv("EXECSRV_EXE", other)
    assert server_command() == [other]


def test_a_name_without_a_directory_is_looked_up(machine: Machine) -> None:
    """On PATH, as a shell does."""
    program = machine.program("path2/my-server")
    machine.monkeypatch.setenv("EXECSRV_EXE", "my-server")
    assert server_command() == [program]


def test_an_empty_variable_is_none(machine: Machine) -> None:
    """It says nothing."""
    machine.monkeypatch.setenv("EXECSRV_EXE", "")
    assert server_command() == [sys.executable, "-m", "execsrv"]


@pytest.mark.parametrize("name", ["missing", "/missing/execsrv", "/", "{root}/plain"])
def test_a_variable_that_names_no_program_is_an_error(name: str, machine: Machine, tmp_path: Path) -> None:
    """It says what to set, and nothing else is taken instead."""
    machine.program("path1/execsrv")
    (tmp_path / "plain").write_text("not executable")
    machine.monkeypatch.setenv("EXECSRV_EXE", name.format(root=tmp_path))
    with pytest.raises(SpawnError, match="EXECSRV_EXE must be set to a program"):
        server_command()


def test_a_directory_is_no_program(machine: Machine, tmp_path: Path) -> None:
    """Though a clone of this project has one of that name next to its scripts."""
    (tmp_path / "app" / "execsrv").mkdir()
    assert server_command() == [sys.executable, "-m", "execsrv"]


def test_without_a_program_there_is_nothing_next_to_it(machine: Machine, tmp_path: Path) -> None:
    """``python -c`` in a directory does not run what lies there."""
    machine.program("here/execsrv")
    machine.monkeypatch.chdir(tmp_path / "here")
    for arguments in (["-c"], [""], []):
        machine.monkeypatch.setattr(sys, "argv", arguments)
        assert server_command() == [sys.executable, "-m", "execsrv"]


def test_a_program_that_is_its_own_interpreter_says_what_to_set(machine: Machine) -> None:
    """It can't run modules."""
    machine.monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(SpawnError, match="set EXECSRV_EXE"):
        server_command()
    machine.monkeypatch.delattr(sys, "frozen")
    machine.monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(SpawnError, match="set EXECSRV_EXE"):
        server_command()


def test_what_is_found_here_is_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers."""
    monkeypatch.delenv("EXECSRV_EXE", raising=False)
    with spawn_local_exec_server(server_command()) as client:
        assert client.run(["echo", "hello"], timeout=20).stdout == b"hello\n"
