"""Who may open a websocket."""

from __future__ import annotations

from email.message import Message

import pytest
from transport_peers import HANDSHAKE

from execsrv.transports.handshake import Allowed, Refusal, check_request, is_known_host

ALLOWED = Allowed(frozenset({"https://good.example"}), frozenset({"box.example"}))


def status(
    changes: dict[str, str | None] | None = None,
    extra: list[tuple[str, str]] | None = None,
    method: str = "GET",
    version: str = "HTTP/1.1",
) -> int:
    """The status that a request gets: correct headers with ``changes`` (None: left out) and ``extra`` ones."""
    headers: Message[str, str] = Message()
    for name, value in {**HANDSHAKE, **(changes or {})}.items():
        if value is not None:
            headers[name] = value
    for name, value in extra or []:
        headers[name] = value
    try:
        check_request(method, version, headers, ALLOWED)
    except Refusal as refusal:
        return int(refusal.status.split()[0])
    return 101


def test_a_correct_request_passes() -> None:
    """Also with other spellings of what HTTP lets vary."""
    assert status() == 101
    assert status({"Upgrade": "WebSocket", "Connection": "keep-alive, Upgrade"}) == 101
    assert status({"Content-Length": "0"}) == 101


@pytest.mark.parametrize(
    "changes",
    [
        {"Upgrade": None},
        {"Upgrade": "h2c"},
        {"Connection": None},
        {"Connection": "keep-alive"},
        {"Connection": "no-upgrade"},
        {"Sec-WebSocket-Version": None},
        {"Sec-WebSocket-Version": "8"},
        {"Sec-WebSocket-Version": "13, 8"},
    ],
)
def test_what_asks_for_no_websocket_is_told_to(changes: dict[str, str | None]) -> None:
    """426, whatever is missing."""
    assert status(changes) == 426


def test_only_get_and_http_1_1_upgrade() -> None:
    """426 for every other request."""
    assert status(method="POST") == status(method="HEAD") == status(version="HTTP/1.0") == 426
    assert status({"Host": None}, version="HTTP/1.0") == 426


@pytest.mark.parametrize("key", [None, "", "short", "A" * 24, "AAAAAAAAAAAAAAAAAAAAAA==AAAA", "\xe9" * 24, "=" * 24])
def test_a_bad_key_is_a_bad_request(key: str | None) -> None:
    """400 for what is not 16 bytes in base64."""
    assert status({"Sec-WebSocket-Key": key}) == 400


@pytest.mark.parametrize("name", ["Host", "Sec-WebSocket-Key"])
def test_headers_that_stand_twice_are_bad_requests(name: str) -> None:
    """Two readers could take different ones."""
    assert status(extra=[(name, HANDSHAKE[name])]) == 400


@pytest.mark.parametrize("extra", [("Content-Length", "5"), ("Transfer-Encoding", "chunked")])
def test_a_body_is_a_bad_request(extra: tuple[str, str]) -> None:
    """Its bytes would be taken for frames."""
    assert status(extra=[extra]) == 400


@pytest.mark.parametrize(
    "origin, expected",
    [
        ("https://good.example", 101),
        ("https://good.example:443", 403),
        ("http://good.example", 403),
        ("https://GOOD.example", 403),
        ("https://good.example.evil.example", 403),
        ("https://evil.example", 403),
        ("null", 403),
        ("", 403),
    ],
)
def test_an_origin_must_be_allowed_exactly(origin: str, expected: int) -> None:
    """A web page of any other origin is refused."""
    assert status({"Origin": origin}) == expected


def test_two_origins_are_refused() -> None:
    """Even when one of them is allowed."""
    assert status({"Origin": "https://good.example"}, extra=[("Origin", "https://evil.example")]) == 403


@pytest.mark.parametrize(
    "host, expected",
    [("127.0.0.1:80", 101), ("box.example", 101), ("evil.example", 403), ("", 403), (None, 400)],
)
def test_the_host_must_be_known(host: str | None, expected: int) -> None:
    """A name of ours, not one that a stranger pointed at us."""
    assert status({"Host": host}) == expected


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:8080",
        "10.1.2.3:",
        "[::1]",
        "[::1]:8080",
        "[FE80::1]:1",
        "localhost",
        "LocalHost:80",
        "localhost.",
        "box.example",
        "Box.Example:99",
        "box.example.",
    ],
)
def test_known_hosts(host: str) -> None:
    """Addresses, localhost and allowed names, with or without a port."""
    assert is_known_host(host, ALLOWED.hosts)


@pytest.mark.parametrize(
    "host",
    [
        "",
        ":80",
        ".",
        "evil.example",
        "box.example.evil.example",
        "evil.localhost",
        "localhost:80:80",
        "127.0.0.1.evil.example",
        "127.1",
        "0x7f000001",
        "::1",
        "[::1",
        "[::1]x",
        "[evil.example]",
        "[127.0.0.1]",
        "user@localhost",
        "localhost:８０",
        "box.example..",
    ],
)
def test_unknown_hosts(host: str) -> None:
    """All else, also what only looks like one of them."""
    assert not is_known_host(host, ALLOWED.hosts)


def test_a_refusal_is_a_whole_answer() -> None:
    """Its head names our protocol and the body's length, and the connection's end."""
    head, body = Refusal("426 Upgrade Required", "not here").response().split(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "HTTP/1.1 426 Upgrade Required"
    assert {"Upgrade: websocket", "Connection: Upgrade, close", f"Content-Length: {len(body)}"} < set(lines)
    assert body == b"not here\n"
