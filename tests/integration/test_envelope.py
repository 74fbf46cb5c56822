"""The envelope: what is a message, which answer fits which fault, and the order of checks, on both transports."""

from __future__ import annotations

import json
from typing import Any

import pytest
from peer import PATH, Json, OpenPeer, Peer

#: A request that is answered at once, whatever has happened.
HARMLESS = {"method": "process/terminate", "params": {"processId": "nobody"}}

NO_JSON = [b"{", b"words", b'{"id":1}}', b"'a'", b'{"id": NaN}', b"[" * 100_000, b'{"method": "\\x"}', b'{"id":1,}']

NO_MESSAGE = [
    *("[]", '"text"', "17", "null", "true", "{}", '{"id": 1}', '{"params": {}}', '{"id": 1, "method": null}'),
    *('{"method": 5}', '{"id": 1, "method": {}}', '{"method": ["initialized"]}'),
    '[{"id": 1, "method": "process/terminate", "params": {"processId": "p"}}]',
]

BAD_IDS: list[Any] = [None, True, False, 1.5, 1.0, [], {}, [1], 10**1000, -(10**1000)]
GOOD_IDS = [
    *(0, -7, 2**63 - 1, -(2**63), 2**64 + 1, 10**999, -(10**999)),
    *("", "1", "-1", 'a"\n\\', "\u2028\u00e9\U0001f600", "\ud800"),
]


def is_fine(peer: Peer) -> bool:
    """Does the connection go on?"""
    return peer.call(**{"method": "process/terminate", "processId": "nobody"}) == {"running": False}


def faults(peer: Peer, messages: list[bytes]) -> list[tuple[int, str]]:
    """Code and kind of what each message is answered with, under no id."""
    found = []
    for message in messages:
        peer.link.send(message)
        error = peer.fault()
        found.append((error["code"], error["data"]["kind"]))
    return found


@pytest.mark.parametrize("id", GOOD_IDS, ids=[f"{str(id)[:8]!a}" for id in GOOD_IDS])
def test_an_id_is_echoed_exactly(peer: Peer, id: int | str) -> None:
    """Strings, and integers up to 1,000 digits, keep type and value; in results and errors alike."""
    peer.send({"id": id, **HARMLESS})
    answer = peer.answer(id)
    assert answer["id"] == id and type(answer["id"]) is type(id)
    peer.send({"id": id, "method": "no/such"})
    assert peer.error(id)["message"] == "unknown method: no/such"


def test_the_id_minus_one_is_an_id_like_others(peer: Peer) -> None:
    """A request may use the number that stands for no request."""
    peer.send({"id": -1, **HARMLESS})
    assert peer.result(-1) == {"running": False}


def test_a_bad_id_is_refused_under_no_id(peer: Peer) -> None:
    """Null, booleans, floats (also whole ones), containers, and integers of more than 1,000 digits."""
    messages = [json.dumps({"id": id, **HARMLESS}).encode() for id in BAD_IDS]
    assert faults(peer, messages) == [(-32600, "invalidMessage")] * len(BAD_IDS)
    assert is_fine(peer)


def test_no_json_is_a_parse_error(peer: Peer) -> None:
    """Also when it is nested too deep to be parsed; the connection goes on."""
    assert faults(peer, NO_JSON) == [(-32700, "parseError")] * len(NO_JSON)
    assert is_fine(peer)


def test_json_that_is_no_message_is_refused(peer: Peer) -> None:
    """No object, a batch, or neither request, notification nor response."""
    assert faults(peer, [text.encode() for text in NO_MESSAGE]) == [(-32600, "invalidMessage")] * len(NO_MESSAGE)
    assert is_fine(peer)


def test_what_belongs_to_jsonrpc_or_is_unknown_is_ignored(peer: Peer) -> None:
    """``jsonrpc``, ``trace`` and members that nobody knows, in the envelope and in params."""
    extra = {"jsonrpc": "1.5", "trace": {"traceparent": 5}, "future": [1], "result": 3, "error": {}}
    peer.send({"id": "a", **HARMLESS, **extra})
    assert peer.result("a") == {"running": False}
    life = peer.run("echo", "hi", future={"deep": [None]}, size={"rows": 1, "depth": 3})
    assert life.stdout == b"hi\n"


def test_null_means_absent_for_what_is_optional(peer: Peer) -> None:
    """In a start and in a read, and for params as a whole."""
    optional = ("arg0", "sandbox", "pipeStdin", "size", "envPolicy", "windowBytes")
    life = peer.run("sh", "-c", "echo $0; cat", **dict.fromkeys(optional))
    assert life.stdout == b"sh\n"
    read = {"processId": life.exited["processId"], "afterSeq": None, "maxBytes": None, "waitMs": None}
    assert peer.call("process/read", **read)["closed"] is True
    peer.send({"id": "null", "method": "process/terminate", "params": None})
    assert peer.error("null")["message"] == "params.processId: is missing"


def test_params_that_are_no_object_are_invalid(peer: Peer) -> None:
    """There are no positional params."""
    for params in ([], ["p"], "p", 5, True):
        peer.send({"id": "x", "method": "process/terminate", "params": params})
        error = peer.error("x")
        assert error["code"] == -32602 and error["message"].startswith("params: ")


def test_an_unexpected_notification_is_named(peer: Peer) -> None:
    """Unknown ones, methods that want an answer, and what only the server sends."""
    for method in ("no/such", "process/start", "process/exited", ""):
        peer.send({"method": method, "params": {}})
        error = peer.fault()
        assert error["message"] == f"unexpected notification method: {method}"
        assert (error["code"], error["data"]["kind"]) == (-32600, "unknownMethod")


def test_a_notification_of_the_wrong_shape_is_invalid(peer: Peer) -> None:
    """Under no id, and the field is named."""
    for params in ({}, {"processId": 1, "seq": 1}, {"processId": "p", "seq": -1}, {"processId": "p", "seq": 2**70}):
        peer.send({"method": "process/ack", "params": params})
        error = peer.fault()
        assert error["code"] == -32602 and error["message"].startswith("params.")


def test_a_response_from_the_client_is_unexpected(peer: Peer) -> None:
    """The server asks nothing; the id in the message is the one that came."""
    for message, words in (
        ({"id": 7, "result": {}}, "unexpected client response for request id 7"),
        ({"id": "x", "result": None}, "unexpected client response for request id x"),
        ({"id": -1, "error": {"code": 1, "message": "m"}}, "unexpected client error for request id -1"),
        ({"id": 8, "error": None, "result": 1}, "unexpected client response for request id 8"),
    ):
        peer.send(message)
        error = peer.fault()
        assert (error["code"], error["message"]) == (-32600, words)


def test_what_a_fast_parser_bends_is_answered_under_its_own_id(peer: Peer) -> None:
    """A lone surrogate in a string, an integer beyond 64 bits."""
    error = peer.refused_start("echo", "\ud800")
    assert error["code"] == -32602 and "argv[1]" in error["message"]
    error = peer.refused("process/read", processId="p", afterSeq=2**70)
    assert error["code"] == -32602 and error["message"].startswith("params.afterSeq: ")
    error = peer.refused("process/read", processId="p\ud800")
    assert error["data"]["kind"] == "unknownProcess"


def test_an_unknown_method_is_named(peer: Peer) -> None:
    """Before anything else is looked at."""
    for method in ("no/such", "process/started", "initialized", "rpc.discover", ""):
        peer.send({"id": "x", "method": method, "params": 5})
        error = peer.error("x")
        assert error["message"] == f"unknown method: {method}"
        assert (error["code"], error["data"]["kind"]) == (-32600, "unknownMethod")


def test_method_and_shape_are_checked_before_the_handshake(open_peer: OpenPeer) -> None:
    """The order: method, shape of the params, handshake."""
    peer = open_peer()
    assert peer.refused("no/such")["data"]["kind"] == "unknownMethod"
    assert peer.refused("process/start", processId="p")["data"]["kind"] == "invalidParams"
    assert peer.refused("process/terminate", processId="p")["data"]["kind"] == "notInitialized"


def test_the_checks_of_a_start_have_an_order(peer: Peer) -> None:
    """Shape, duplicate id, sandbox, empty argv, cwd: each fault hides those after it."""
    used = peer.start("cat", pipeStdin=True)
    wrong: dict[str, Any] = {"processId": used, "sandbox": {"mode": "hostDefault"}, "cwd": "relative"}
    assert peer.refused_start(**wrong, tty="yes")["message"].startswith("params.tty: ")
    assert peer.refused_start(**wrong)["data"]["kind"] == "duplicateProcess"
    wrong["processId"] = "new"
    assert peer.refused_start(**wrong)["data"]["kind"] == "sandboxUnsupported"
    del wrong["sandbox"]
    assert peer.refused_start(**wrong)["message"] == "argv must not be empty"
    assert peer.refused_start("true", **wrong)["message"].startswith("params.cwd: ")


def test_a_write_to_nobody_is_refused_before_its_base64_is_looked_at(peer: Peer) -> None:
    """Unknown process, closed stdin, base64: in this order."""
    unknown = {"processId": "nobody", "chunk": "%"}
    assert peer.refused("process/write", **unknown)["data"]["kind"] == "unknownProcess"
    no_stdin = {"processId": peer.start("sleep", "100"), "chunk": "%"}
    assert peer.refused("process/write", **no_stdin)["data"]["kind"] == "stdinClosed"


def test_a_whole_float_is_an_integer_and_a_boolean_is_not(peer: Peer) -> None:
    """``1.0`` reaches the program as 1."""
    life = peer.run("stty", "size", tty=True, size={"rows": 7.0, "cols": 5e1})
    assert life.pty == b"7 50\r\n"
    for size in ({"rows": True}, {"cols": False}, {"rows": 1.5}, {"rows": "7"}):
        assert peer.refused_start("true", tty=True, size=size)["code"] == -32602


@pytest.mark.parametrize(
    "method, params",
    [
        ("process/start", {"size": {"rows": 0}}),
        ("process/start", {"size": {"cols": 65536}}),
        ("process/start", {"windowBytes": 0}),
        ("process/start", {"windowBytes": 10**30}),
        ("process/read", {"afterSeq": -1}),
        ("process/read", {"maxBytes": -1}),
        ("process/read", {"maxBytes": 2**63}),
        ("process/read", {"waitMs": -1}),
        ("process/read", {"waitMs": 10**15}),
        ("command/exec", {"outputBytesCap": -1}),
    ],
)
def test_every_integer_has_bounds(peer: Peer, method: str, params: Json) -> None:
    """Beyond them the field is named."""
    base = {"processId": "p", "argv": ["true"], "cwd": "/", "env": PATH, "tty": True}
    error = peer.refused(method, **base, **params)
    field = next(iter(params))
    assert error["code"] == -32602 and error["message"].startswith(f"params.{field}"), error


# ---- order of work -------------------------------------------------------------------------------------------------


def test_a_request_about_a_starting_process_waits_for_its_start(peer: Peer) -> None:
    """Start, write, read and terminate, sent at once."""
    start, process_id = peer.request_start("cat", pipeStdin=True)
    write = peer.request("process/write", processId=process_id, chunk="aGk=")
    read = peer.request("process/read", processId=process_id, waitMs=20_000)
    again, _ = peer.request_start("cat", processId=process_id)
    peer.result(start)
    assert peer.result(write) == {"accepted": True, "status": "accepted"}
    assert peer.result(read)["chunks"][0]["chunk"] == "aGk="
    assert peer.error(again)["message"] == f"process {process_id} already exists"
    assert peer.call("process/terminate", processId=process_id) == {"running": True}


def test_a_thousand_pipelined_requests_are_all_answered(peer: Peer) -> None:
    """Of every lane, once each."""
    process_id = peer.start("cat", pipeStdin=True)
    asked = []
    for _ in range(250):
        asked.append(peer.request("process/write", processId=process_id, chunk="eA=="))
        asked.append(peer.request("process/read", processId=process_id, maxBytes=0))
        asked.append(peer.request("fs/getMetadata", path="/"))
        asked.append(peer.request("process/terminate", processId="nobody"))
    assert all(peer.result(id) for id in asked)
    while len(peer.output(process_id)) < 250:
        peer.receive()


def test_a_waiting_read_holds_up_nobody(peer: Peer) -> None:
    """Requests after it are answered before it; the process's end answers it."""
    process_id = peer.start("cat", pipeStdin=True)
    waiting = peer.request("process/read", processId=process_id, waitMs=60_000)
    assert is_fine(peer)
    assert peer.call("fs/getMetadata", path="/")["isDirectory"] is True
    assert peer.call("process/read", processId=process_id)["exited"] is False
    peer.call("process/terminate", processId=process_id)
    assert peer.result(waiting)["exited"] is True


# ---- stdio and websocket apart -------------------------------------------------------------------------------------


def test_stdio_takes_carriage_returns_blank_lines_and_a_last_line_without_end(open_stdio: OpenPeer) -> None:
    """Lines are told apart by newlines only."""
    peer = open_stdio()
    initialize = json.dumps({"id": 1, "method": "initialize", "params": {"clientName": "é\r"}}).encode()
    initialized = b'{"method":"initialized"}'
    last = json.dumps({"id": 2, **HARMLESS}).encode()
    peer.link.send_raw(b"\n\r\n \n" + initialize[:20])  # type: ignore[attr-defined]
    peer.link.send_raw(initialize[20:] + b"\r\n\n" + initialized + b"\r\n" + last)  # type: ignore[attr-defined]
    peer.link.end_input()  # type: ignore[attr-defined]
    assert [message["id"] for message in peer.end()] == [1, 2]
    assert "result" in peer.answer(2)


def test_stdio_answers_what_is_not_utf8(open_stdio: OpenPeer) -> None:
    """One bad line does no harm to the next."""
    peer = open_stdio()
    messages = [b'{"id": 1, "method": "\xff"}', b"\xc3", b'{"method": "\xed\xa0\x80"}']
    assert faults(peer, messages) == [(-32700, "parseError")] * 3
    peer.handshake()


def test_websocket_takes_binary_messages(open_websocket: OpenPeer) -> None:
    """They hold UTF-8 JSON as well; what is not UTF-8 is a parse error and the connection goes on."""
    peer = open_websocket().handshake()
    connection = peer.link.connection  # type: ignore[attr-defined]
    connection.send(json.dumps({"id": "é", **HARMLESS}, ensure_ascii=False).encode())
    assert peer.result("é") == {"running": False}
    connection.send(b'{"id": "\xff"}')
    assert peer.fault()["code"] == -32700
    assert is_fine(peer)


def test_websocket_takes_fragments_and_empty_messages(open_websocket: OpenPeer) -> None:
    """One message may come in many frames; an empty one is no JSON."""
    peer = open_websocket().handshake()
    connection = peer.link.connection  # type: ignore[attr-defined]
    text = json.dumps({"id": 9, **HARMLESS})
    connection.send(iter(text))
    assert peer.result(9) == {"running": False}
    connection.send("")
    assert peer.fault()["code"] == -32700
