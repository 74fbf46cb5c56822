"""What ``import execsrv`` gives."""

import subprocess
import sys

import pytest

import execsrv
import execsrv.client


def test_the_names_of_the_client_are_here() -> None:
    """Each of them, and no others."""
    assert execsrv.__all__ == execsrv.client.__all__
    for name in execsrv.__all__:
        assert getattr(execsrv, name) is getattr(execsrv.client, name)


def test_another_name_is_an_error() -> None:
    """As for any module; also that of a module of the client."""
    for name in ("Nothing", "launcher"):
        with pytest.raises(AttributeError, match=f"module 'execsrv' has no attribute '{name}'"):
            getattr(execsrv, name)


def test_the_server_starts_without_the_client_and_the_client_without_gevent() -> None:
    """Neither imports the other's."""
    program = "import sys, {}; sys.exit(any(name.startswith({!r}) for name in sys.modules))"
    for module, foreign in (
        ("execsrv.server.daemon", "execsrv.client"),
        ("execsrv.client", "gevent"),
        ("execsrv.client", "execsrv.server"),
        ("execsrv.run", "gevent"),
    ):
        subprocess.run([sys.executable, "-c", program.format(module, foreign)], check=True, timeout=60)
