"""The handshake, and what a connection's end means for its processes."""

from __future__ import annotations

import os
from typing import Any

import pytest
from peer import OpenPeer, Peer

from execsrv import schemas

CALL_INITIALIZE = "client must call initialize before using exec methods"
SEND_INITIALIZED = "client must send initialized before using exec methods"

GUARDED = [
    method
    for method in schemas.methods()
    if schemas.kind(method) == "request" and method != "initialize" and not method.startswith("command/")
]


def example(method: str) -> dict[str, Any]:
    """Params that fit the schema of ``method``."""
    params: dict[str, Any] = schemas.schema(method)["examples"][0]["params"]
    return params


def refusals(peer: Peer) -> set[tuple[int, str, str]]:
    """How the peer is refused every method that needs the handshake."""
    errors = [peer.refused(method, **example(method)) for method in GUARDED]
    return {(error["code"], error["message"], error["data"]["kind"]) for error in errors}


def test_every_method_waits_for_both_steps(open_peer: OpenPeer) -> None:
    """The refusals before and between the steps, and none afterwards."""
    peer = open_peer()
    assert refusals(peer) == {(-32600, CALL_INITIALIZE, "notInitialized")}
    peer.call("initialize", clientName="tests")
    assert refusals(peer) == {(-32600, SEND_INITIALIZED, "notInitialized")}
    peer.notify("initialized")
    assert peer.run("true").exited["exitCode"] == 0


def test_notifications_wait_for_both_steps_too(open_peer: OpenPeer) -> None:
    """``initialized`` out of order has words of its own; an ack is refused like a method."""
    peer = open_peer()
    peer.notify("initialized")
    error = peer.fault()
    assert error["message"] == "received `initialized` notification before `initialize`"
    assert (error["code"], error["data"]["kind"]) == (-32600, "notInitialized")
    peer.notify("process/ack", processId="p", seq=1)
    assert peer.fault()["message"] == CALL_INITIALIZE
    peer.call("initialize", clientName="tests")
    peer.notify("process/ack", processId="p", seq=1)
    assert peer.fault()["message"] == SEND_INITIALIZED


def test_initialize_tells_where_commands_run(open_peer: OpenPeer) -> None:
    """The version, a session id of its own, capabilities, and the server's surroundings with native paths."""
    peers = [open_peer(), open_peer()]
    first, second = (peer.call("initialize", clientName="tests") for peer in peers)
    assert first["protocolVersion"] == "exec-server.v0"
    assert first["sessionId"] and first["sessionId"] != second["sessionId"]
    assert first["capabilities"]["processAck"] is True
    info = first["environmentInfo"]
    assert (info["cwd"], info["platformOs"]) == (os.getcwd(), "linux")
    assert all(os.path.isabs(info[name]) for name in ("userHomeDir", "tempDir"))
    assert os.path.basename(info["shell"]["path"]) == info["shell"]["name"]


def test_only_one_initialize_may_succeed(open_peer: OpenPeer) -> None:
    """One with bad params does not count, neither before nor after the good one."""
    peer = open_peer()
    for params in ({}, {"clientName": 5}, {"clientName": None}):
        error = peer.refused("initialize", **params)
        assert error["code"] == -32602 and error["message"].startswith("params.clientName: ")
    peer.call("initialize", clientName="tests")
    for _ in range(2):
        error = peer.refused("initialize", clientName="tests")
        assert error["message"] == "initialize may only be sent once per connection"
        assert (error["code"], error["data"]["kind"]) == (-32600, "alreadyInitialized")
    assert peer.refused("initialize")["code"] == -32602
    peer.notify("initialized")
    assert peer.run("true").exited["exitCode"] == 0


@pytest.mark.parametrize("params", [None, [], 5, "words", {"unknown": 1}])
def test_the_params_of_initialized_are_ignored(params: object, open_websocket: OpenPeer) -> None:
    """Whatever their type."""
    peer = open_websocket()
    peer.call("initialize", clientName="tests")
    peer.send({"method": "initialized", "params": params})
    assert peer.run("true").exited["exitCode"] == 0
    assert not peer.faults


def test_first_cut_methods_need_no_handshake(open_peer: OpenPeer) -> None:
    """All three of them."""
    peer = open_peer()
    peer.call("command/exec", processId="p", argv=["cat"], cwd="/", env={"PATH": os.environ["PATH"]}, tty=True)
    assert peer.call("command/exec/write", processId="p", chunk="") == {"accepted": True}
    assert peer.call("command/exec/terminate", processId="p") == {"running": True}
