"""Tests of execsrv.session: its names, and what it costs to have them."""

from __future__ import annotations

import subprocess
import sys
import types

import execsrv.session


def test_all_names_are_those_that_are_there() -> None:
    """In order, each once; modules are no part of it."""
    there = {
        name
        for name, value in vars(execsrv.session).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert execsrv.session.__all__ == sorted(there)


def test_neither_the_server_nor_its_hub_is_imported() -> None:
    """Nor the websocket client: a session that needs none of them pays for none."""
    code = "import sys, execsrv.session; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60).stdout.split()
    assert "execsrv.session.backends" in modules
    assert [name for name in modules if name.startswith(("gevent", "websockets", "execsrv.server"))] == []
