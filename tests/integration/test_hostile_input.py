"""Input that breaks the rules: it is answered, or closes its own connection; nobody else notices."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable

import pytest
from endings import gone
from links import Program, ask_for_upgrade
from peer import Json, OpenPeer, Peer
from proc import peak_bytes
from websockets.frames import Frame, Opcode

MIB = 1024 * 1024

START = {"processId": "p", "argv": ["true"], "cwd": "/", "env": {}, "tty": False}

#: One of each kind of fault, with the code of its answer.
BAD: list[tuple[bytes, int]] = [
    (b"{", -32700),
    (b"[" * 200_000 + b"]" * 200_000, -32700),
    (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, -32700),
    (b"9" * 100_000, -32600),
    (b'{"id": ' + b"9" * 1001 + b', "method": "initialize"}', -32600),
    (b"[]", -32600),
    (b"{}", -32600),
    (b'{"id": null, "method": "process/list"}', -32600),
    (b'{"method": "\\ud800"}', -32600),
    (b'{"method": "initialized\\u0000"}', -32600),
    (b'{"method": "process/ack", "params": {"processId": [], "seq": {}}}', -32602),
    (b'{"id": 1, "result": "\\udfff"}', -32600),
    (b'{"id": "\\ud800", "error": {}}', -32600),
]


def check_still_controllable(peer: Peer, process_id: str) -> None:
    """Write to a process that runs ``cat``, see its answer, end it."""
    assert peer.call("process/write", processId=process_id, chunk="YWxpdmU=")
    peer.wait_for_output(process_id, b"alive")
    assert peer.call("process/terminate", processId=process_id) == {"running": True}
    peer.finish(process_id)


def test_bad_input_leaves_processes_alone(peer: Peer) -> None:
    """Every kind of fault, ten times over; then the process that was started before is controlled."""
    process_id = peer.start("cat", pipeStdin=True)
    for message, code in BAD * 10:
        peer.link.send(message)
        assert peer.fault()["code"] == code, message[:60]
    check_still_controllable(peer, process_id)


def test_thousands_of_bad_messages_are_all_answered(peer: Peer) -> None:
    """Sent at once, with good ones in between."""
    process_id = peer.start("cat", pipeStdin=True)
    for _ in range(2000):
        peer.link.send(b"nonsense")
    id = peer.request("process/read", processId=process_id)
    assert peer.result(id)["exited"] is False
    assert all(peer.fault()["code"] == -32700 for _ in range(2000))
    check_still_controllable(peer, process_id)


def deep(depth: int) -> Json:
    """An object in an object in an object ..."""
    value: Json = {}
    for _ in range(depth):
        value = {"x": value}
    return value


@pytest.mark.parametrize("depth", [100, 254, 255, 256, 700])
def test_deep_params_are_answered_under_their_id(peer: Peer, depth: int) -> None:
    """Where they are unknown they are ignored; where they are wrong they are told so."""
    process_id = peer.start("cat", pipeStdin=True)
    start = {**START, "processId": peer.new_id()}
    for params in ({**start, "unknown": deep(depth)}, {**start, "argv": deep(depth)}, {"processId": deep(depth)}):
        peer.send({"id": "deep", "method": "process/start", "params": params})
        assert peer.answer("deep")
    check_still_controllable(peer, process_id)


def test_long_names_do_not_come_back_whole(peer: Peer) -> None:
    """A fault that quotes what it was sent stays short, save for the words that the contract fixes."""
    error = peer.refused("process/read", processId="p", afterSeq="x" * MIB)
    assert error["code"] == -32602 and len(error["message"]) < 1000
    error = peer.refused_start("true", env={"x" * MIB: 5})
    assert error["code"] == -32602 and len(error["message"]) < 1000


def test_arguments_that_are_too_long_for_the_system_fail_the_start(peer: Peer) -> None:
    """execve(2) says E2BIG; the server lives on."""
    error = peer.refused_start("echo", "x" * 200_000)
    assert (error["code"], error["data"]["kind"]) == (-32603, "spawnFailed")
    error = peer.refused_start("echo", *["x" * 100_000] * 40)
    assert (error["code"], error["data"]["kind"]) == (-32603, "spawnFailed")
    assert peer.run("true").exited["exitCode"] == 0


# ---- too large -----------------------------------------------------------------------------------------------------


def message_of(size: int) -> bytes:
    """A good request of so many bytes."""
    empty = len(json.dumps({"id": 1, "method": "process/terminate", "params": {"processId": "p", "x": ""}}))
    params = {"processId": "p", "x": "x" * (size - empty)}
    return json.dumps({"id": 1, "method": "process/terminate", "params": params}).encode()


def test_stdio_skips_a_line_that_is_too_long(open_stdio: OpenPeer) -> None:
    """It is answered under no id and not held in memory; one of just the limit is taken; the connection goes on."""
    peer = open_stdio("--max-message-bytes", "2000").handshake()
    process_id = peer.start("cat", pipeStdin=True)
    before = peak_bytes(peer.program.pid)
    for size in (2001, 50 * MIB):
        peer.link.send(message_of(size))
        error = peer.fault()
        assert (error["code"], error["data"]["kind"]) == (-32600, "tooLarge")
    assert peak_bytes(peer.program.pid) - before < 10 * MIB
    peer.link.send(message_of(2000))
    assert peer.result(1) == {"running": False}
    check_still_controllable(peer, process_id)


def test_websocket_closes_on_a_message_that_is_too_long(
    open_websocket: OpenPeer, listen: Callable[..., Program]
) -> None:
    """With 1009; in one frame, in many, or only announced. One of just the limit is taken."""
    server = listen("--max-message-bytes", "2000")
    other = open_websocket(server).handshake()
    process_id = other.start("cat", pipeStdin=True)
    taken = open_websocket(server).handshake()
    taken.link.send(message_of(2000))
    assert taken.result(1) == {"running": False}
    header = bytes([0x81, 0xFF]) + struct.pack("!Q", 2**40) + bytes(4)
    for data in (header, framed(message_of(2001)), framed(b"x" * 1500, fin=False) + framed(b"x" * 1500, Opcode.CONT)):
        peer = open_websocket(server).handshake()
        peer.link.connection.socket.sendall(data)  # type: ignore[attr-defined]
        assert peer.link.close_code() == 1009  # type: ignore[attr-defined]
    check_still_controllable(other, process_id)


# ---- websocket frames ----------------------------------------------------------------------------------------------


def framed(
    payload: bytes, opcode: Opcode = Opcode.TEXT, fin: bool = True, mask: bool = True, rsv1: bool = False
) -> bytes:
    """A frame, right or wrong."""
    first = (0x80 if fin else 0) | (0x40 if rsv1 else 0)
    data = bytearray(Frame(opcode, payload).serialize(mask=mask))
    data[0] = first | opcode
    return bytes(data)


FRAME_FAULTS = {
    "unmasked": framed(b"{}", mask=False),
    "unmasked ping": framed(b"", Opcode.PING, mask=False),
    "reserved opcode": bytes([0x83, 0x80]) + bytes(4),
    "reserved control opcode": bytes([0x8B, 0x80]) + bytes(4),
    "reserved bit": framed(b"{}", rsv1=True),
    "continuation of nothing": framed(b"{}", Opcode.CONT),
    "text inside a message": framed(b"{", fin=False) + framed(b"}"),
    "fragmented ping": framed(b"", Opcode.PING, fin=False),
    "long ping": bytes([0x89, 0xFE]) + struct.pack("!H", 126) + bytes(4 + 126),
    "close of one byte": framed(b"x", Opcode.CLOSE),
    "close with a reserved code": framed(struct.pack("!H", 1005), Opcode.CLOSE),
}


@pytest.mark.parametrize("name", FRAME_FAULTS)
def test_a_frame_against_the_rules_closes_with_1002(name: str, open_websocket: OpenPeer) -> None:
    """And ends that connection's processes, nobody else's."""
    other, peer = open_websocket().handshake(), open_websocket().handshake()
    kept = other.start("cat", pipeStdin=True)
    pid = peer.event("process/started", peer.start("cat", pipeStdin=True))["pid"]
    peer.link.connection.socket.sendall(FRAME_FAULTS[name])  # type: ignore[attr-defined]
    assert peer.link.close_code() == 1002  # type: ignore[attr-defined]
    assert gone(pid)
    check_still_controllable(other, kept)


def test_a_text_that_is_not_utf8_is_a_parse_error(open_websocket: OpenPeer) -> None:
    """The connection goes on, as with any other bad message."""
    peer = open_websocket().handshake()
    process_id = peer.start("cat", pipeStdin=True)
    peer.link.connection.socket.sendall(framed(b'{"id": "\xff"}'))  # type: ignore[attr-defined]
    assert peer.fault()["code"] == -32700
    check_still_controllable(peer, process_id)


@pytest.mark.parametrize("cut", [0, 1, 5, 9, 40])
def test_a_connection_that_is_cut_in_the_middle_of_a_frame_ends(
    cut: int, open_websocket: OpenPeer, server: Program
) -> None:
    """By a reset as well."""
    other = open_websocket().handshake()
    kept = other.start("cat", pipeStdin=True)
    sock, status = ask_for_upgrade(server.url)
    assert status.startswith("HTTP/1.1 101 ")
    params = {**START, "argv": ["/bin/sleep", "1000"]}
    request = json.dumps({"id": 1, "method": "command/exec", "params": params})
    sock.sendall(framed(request.encode()))
    answer = sock.recv(1000)
    pid = json.loads(answer[answer.index(b"{") :])["result"]["pid"]
    sock.sendall(framed(request.encode() * 10)[:cut])
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
    assert gone(pid)
    check_still_controllable(other, kept)


def test_half_a_line_at_the_end_of_stdin_is_answered(open_stdio: OpenPeer) -> None:
    """As what it is: no JSON."""
    peer = open_stdio().handshake()
    peer.link.send_raw(b'{"id": 5, "met')  # type: ignore[attr-defined]
    peer.link.end_input()  # type: ignore[attr-defined]
    peer.end()
    assert peer.fault()["code"] == -32700
    assert peer.program.wait() == 0
