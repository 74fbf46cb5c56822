"""Tests of execsrv.client.server_info."""

from __future__ import annotations

import pytest

from execsrv.client.errors import ExecServerError, UnsupportedError
from execsrv.client.server_info import ServerInfo
from execsrv.wire import from_wire


def test_little_is_enough() -> None:
    """A server of the first kind tells its version only."""
    server = from_wire(ServerInfo, {"protocolVersion": "exec-server.v0"})
    assert server == ServerInfo("exec-server.v0", None, {}, None)
    with pytest.raises(UnsupportedError, match="cwd must be given"):
        assert server.cwd


def test_capabilities() -> None:
    """What is not there, and what is false, is not offered."""
    server = ServerInfo("v", capabilities={"yes": True, "no": False})
    assert server.offers("yes")
    server.require("yes", "this")
    for capability in ("no", "unheard"):
        assert not server.offers(capability)
        with pytest.raises(UnsupportedError, match=f"^this needs {capability}, which the server does not offer$"):
            server.require(capability, "this")


def test_error_is_one_of_the_clients() -> None:
    """Nothing was asked of the server."""
    assert issubclass(UnsupportedError, ExecServerError)
