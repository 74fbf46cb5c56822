"""Finds the program that a session spawns as its server."""

from __future__ import annotations

import os
import shutil
import sys

from execsrv.client.errors import SpawnError

#: The environment variable that names the program.
VARIABLE = "EXECSRV_EXE"

#: What may be on PATH, the best first.
_COMMANDS = (["execsrv"], ["codex-exec-server"], ["codex", "exec-server"])


def server_command() -> list[str]:
    """The command of a server that speaks over stdin and stdout.

    The first that is there of: the program that EXECSRV_EXE names, ``execsrv`` next to the program that runs or to
    its interpreter, ``execsrv``, ``codex-exec-server`` and ``codex exec-server`` on PATH, and this interpreter,
    which knows execsrv. Raises SpawnError when EXECSRV_EXE names no program, and when there is nothing to run.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return [_named_program(named)]
    return _neighbour() or _on_path() or _interpreter()


def _named_program(name: str) -> str:
    program = shutil.which(name)
    if program is None:
        raise SpawnError([name], f"{VARIABLE} must be set to a program that can be executed, or not at all")
    return program


def _neighbour() -> list[str] | None:
    for program in (*sys.argv[:1], sys.executable):
        if program and os.path.isfile(program):  # not so with ``python -c``, nor in a shell of Python
            directory = os.path.dirname(os.path.abspath(program))
            if found := shutil.which("execsrv", path=directory):
                return [found]
    return None


def _on_path() -> list[str] | None:
    for name, *arguments in _COMMANDS:
        if found := shutil.which(name):
            return [found, *arguments]
    return None


def _interpreter() -> list[str]:
    if not sys.executable or getattr(sys, "frozen", False):  # embedded, or packed into one file with its program
        raise SpawnError(["execsrv"], f"there is none to be found: set {VARIABLE} to the program")
    return [sys.executable, "-m", "execsrv"]
