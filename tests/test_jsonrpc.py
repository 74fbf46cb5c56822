"""The envelope: every kind of message, good and bad, as bytes."""

from __future__ import annotations

import base64
import json
import os
from typing import Any

import pytest

from execsrv import jsonrpc
from execsrv.errors import InternalError, InvalidRequest, NotFound, ParseError
from execsrv.jsonrpc import LONGEST_COPIED, Encoded, Notification, Request, Response

#: 200,000 lists in one another, far beyond what any parser follows.
DEEP = b"[" * 200_000 + b"]" * 200_000


@pytest.mark.parametrize(
    "data, message",
    [
        (b'{"id":1,"method":"m","params":{"a":1}}', Request(1, "m", {"a": 1})),
        (b'{"id":"x","method":"m"}', Request("x", "m", None)),
        (b'{"id":"","method":""}', Request("", "", None)),
        (b'{"id":0,"method":"m","params":null}', Request(0, "m", None)),
        (b'{"id":-5,"method":"m","params":[1]}', Request(-5, "m", [1])),
        (b'{"method":"m","params":{}}', Notification("m", {})),
        (b'{"method":"m"}', Notification("m", None)),
        (b'{"id":1,"result":{"a":1}}', Response(1, "result", {"a": 1})),
        (b'{"id":1,"result":null}', Response(1, "result", None)),
        (b'{"id":1,"method":null,"result":2}', Response(1, "result", 2)),
        (b'{"id":-1,"error":{"code":-1,"message":"m"}}', Response(-1, "error", {"code": -1, "message": "m"})),
        (b'{"id":1,"error":null,"result":2}', Response(1, "result", 2)),
        (b' \t{"id":1,"method":"m"}\r\n', Request(1, "m", None)),
    ],
)
def test_each_kind_of_message_is_told_from_the_others(data: bytes, message: jsonrpc.Message) -> None:
    """Requests have a method and an id, notifications no id, responses an id and an outcome; null means absent."""
    assert jsonrpc.parse(data) == message


@pytest.mark.parametrize("extra", ['"jsonrpc":"2.0"', '"jsonrpc":5', '"trace":{"id":[1]}', '"trace":null', '"x":1.5'])
def test_other_members_of_the_envelope_are_ignored(extra: str) -> None:
    """What the envelope does not know changes nothing."""
    assert jsonrpc.parse(f'{{{extra},"id":1,"method":"m"}}'.encode()) == Request(1, "m", None)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"   ",
        b"hello",
        b'{"id":1,"method":"m"',
        b'{"id":1,"method":"m"} {}',
        b"{'id':1}",
        b'{"id":1,"method":"m",}',
        b'{"method":"a\tb"}',
        b'{"method":"m","params":NaN}',
        b'{"method":"m","params":[Infinity,-Infinity]}',
        b'\xef\xbb\xbf{"id":1,"method":"m"}',
        b'{"id":01,"method":"m"}',
        b"\x00",
    ],
)
def test_what_is_no_json_is_a_parse_error(data: bytes) -> None:
    """A byte order mark and the numbers that JSON lacks are refused too."""
    with pytest.raises(ParseError, match="^the message is not JSON: ") as caught:
        jsonrpc.parse(data)
    assert (caught.value.code, caught.value.kind) == (-32700, "parseError")


@pytest.mark.parametrize("text", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\xaf"])
def test_what_is_no_utf8_is_a_parse_error(text: bytes) -> None:
    """Stray, cut, surrogate and overlong bytes; the message tells the place."""
    with pytest.raises(ParseError, match="^the message is not UTF-8: byte 11$"):
        jsonrpc.parse(b'{"method":"' + text + b'"}')


@pytest.mark.parametrize("data", [DEEP, b'{"id":1,"method":"m","params":' + DEEP + b"}", b'{"a":' * 200_000])
def test_what_is_nested_too_deep_is_a_parse_error(data: bytes) -> None:
    """No depth ends the process."""
    with pytest.raises(ParseError, match="^the message is nested too deep$"):
        jsonrpc.parse(data)


@pytest.mark.parametrize("depth", [100, 500, 900])
def test_ordinary_depth_is_fine(depth: int) -> None:
    """Params may be as deep as the fast parser goes."""
    parsed = jsonrpc.parse(b'{"method":"m","params":' + b"[" * depth + b"]" * depth + b"}")
    assert isinstance(parsed, Notification)


@pytest.mark.parametrize("data", [b"[]", b'[{"id":1,"method":"m"}]', b"1", b'"m"', b"true", b"null", b"1.5"])
def test_batches_and_lone_values_are_refused(data: bytes) -> None:
    """A message is one object."""
    with pytest.raises(InvalidRequest, match="^a message is one JSON object; batches are not supported$"):
        jsonrpc.parse(data)


@pytest.mark.parametrize(
    "data",
    [b"{}", b'{"id":1}', b'{"params":{}}', b'{"id":1,"method":null}', b'{"id":1,"error":null}', b'{"result":1}'],
)
def test_an_object_of_no_kind_is_refused(data: bytes) -> None:
    """An id alone, or an outcome without an id, says nothing."""
    with pytest.raises(InvalidRequest, match="neither a request, a notification nor a response") as caught:
        jsonrpc.parse(data)
    assert (caught.value.code, caught.value.kind) == (-32600, "invalidMessage")


@pytest.mark.parametrize("method", ["5", "{}", "[]", "true", "1.5"])
def test_a_method_is_a_string(method: str) -> None:
    """Any other type is refused."""
    with pytest.raises(InvalidRequest, match="^method is not a string$"):
        jsonrpc.parse(f'{{"id":1,"method":{method}}}'.encode())


BAD_IDS = ["true", "false", "null", "1.0", "1.5", "1e3", "1e400", "[]", "{}", "1" * 1001, "-" + "1" * 1001, "1" * 5000]


@pytest.mark.parametrize("rest", ['"method":"m"', '"result":1', '"error":{}'])
@pytest.mark.parametrize("id", BAD_IDS, ids=lambda id: id[:8])
def test_an_id_is_a_string_or_an_integer(id: str, rest: str) -> None:
    """No bool, no float, no null, and no integer of more than 1,000 digits."""
    with pytest.raises(InvalidRequest, match="^id is neither a string nor an integer of at most 1000 digits$"):
        jsonrpc.parse(f'{{"id":{id},{rest}}}'.encode())


GOOD_IDS: list[int | str] = [0, -1, 2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**400, 10**1000 - 1, 1 - 10**1000]
GOOD_IDS += ["", "a", "1", "\ud800", "x\udfffy", "\U0001f600", "\0", "x" * 100_000]


@pytest.mark.parametrize("id", GOOD_IDS, ids=lambda id: ascii(id)[:8])
def test_an_id_comes_back_exactly(id: int | str) -> None:
    """Integers beyond 64 bits and strings with lone surrogates included."""
    request = json.dumps({"id": id, "method": "m"}).encode()
    parsed = jsonrpc.parse(request)
    assert parsed == Request(id, "m", None)
    assert isinstance(parsed, Request)
    assert json.loads(bytes(jsonrpc.result(parsed.id, {}))) == {"id": id, "result": {}}
    fault = NotFound("m")
    assert jsonrpc.parse(bytes(jsonrpc.error(parsed.id, fault))) == Response(id, "error", fault.to_wire())


def test_a_lone_surrogate_does_not_hide_the_rest() -> None:
    """The message is read by the slower parser and keeps its id and its params."""
    parsed = jsonrpc.parse(b'{"id":7,"method":"m","params":{"a":"\\ud800","b":12345678901234567890123}}')
    assert parsed == Request(7, "m", {"a": "\ud800", "b": 12345678901234567890123})


def test_too_long_an_integer_in_the_params_stays_out_of_range() -> None:
    """It is neither an error of the envelope nor a number that some field takes."""
    parsed = jsonrpc.parse(b'{"id":7,"method":"m","params":{"a":' + b"9" * 100_000 + b"}}")
    assert parsed == Request(7, "m", {"a": float("inf")})


@pytest.mark.parametrize(
    "message, value",
    [
        (jsonrpc.request(1, "m", {"a": "\u00e4"}), {"id": 1, "method": "m", "params": {"a": "\u00e4"}}),
        (jsonrpc.notification("m", {}), {"method": "m", "params": {}}),
        (jsonrpc.result("x", None), {"id": "x", "result": None}),
        (
            jsonrpc.error(jsonrpc.NO_ID, InternalError("no", "ioError", errno=5)),
            {"id": -1, "error": {"code": -32603, "message": "no", "data": {"kind": "ioError", "errno": 5}}},
        ),
        (jsonrpc.result(1, {"name": "\ud800\n"}), {"id": 1, "result": {"name": "\ud800\n"}}),
    ],
)
def test_messages_are_written_as_one_line_of_utf8(message: Encoded, value: Any) -> None:
    """No line break inside, no ``jsonrpc`` member, and a reader finds the same value."""
    data = bytes(message)
    assert b"\n" not in data
    assert message.size == len(data)
    assert json.loads(data.decode()) == value


SIZES = [0, 1, LONGEST_COPIED // 4 * 3, LONGEST_COPIED // 4 * 3 + 1, 100_000]


@pytest.mark.parametrize("first", SIZES)
@pytest.mark.parametrize("second", SIZES)
def test_bytes_are_written_as_base64(first: int, second: int) -> None:
    """Short ones within the JSON, long ones as parts of their own; text that looks like a mark is left alone."""
    value = {"a": os.urandom(first), "text": "\0", "list": [os.urandom(second)], "\0": 1}
    message = jsonrpc.result("\0", value)
    written = {**value, "a": encoded(value["a"]), "list": [encoded(value["list"][0])]}
    assert json.loads(bytes(message)) == {"id": "\0", "result": written}
    assert message.size == len(bytes(message))
    assert len(message.parts) == 1 + 2 * sum(size > LONGEST_COPIED // 4 * 3 for size in (first, second))


def test_bytes_stand_beside_what_needs_the_slower_writer() -> None:
    """A lone surrogate."""
    message = jsonrpc.notification("m", {"text": "\ud800", "data": b"\xff" * 10_000})
    assert json.loads(bytes(message))["params"] == {"text": "\ud800", "data": encoded(b"\xff" * 10_000)}


def encoded(data: bytes) -> str:
    """Base64."""
    return base64.b64encode(data).decode()


def test_what_json_cannot_hold_is_a_bug_of_ours() -> None:
    """A set in a result raises TypeError; nothing is sent in its place."""
    with pytest.raises(TypeError):
        jsonrpc.result(1, {"data": {1}})
