"""Values of ``--listen``."""

from __future__ import annotations

import pytest

from execsrv.server.listen import ListenError, WebSocketAddress, parse_listen_url


def test_stdio_needs_no_address() -> None:
    """None stands for the standard streams."""
    assert parse_listen_url("stdio://") is None


@pytest.mark.parametrize(
    "url, address",
    [
        ("ws://127.0.0.1:8080", WebSocketAddress("127.0.0.1", 8080)),
        ("ws://0.0.0.0:0", WebSocketAddress("0.0.0.0", 0)),
        ("ws://[::1]:65535", WebSocketAddress("::1", 65535)),
        ("ws://[::ffff:10.0.0.1]:1", WebSocketAddress("::ffff:10.0.0.1", 1)),
    ],
)
def test_addresses(url: str, address: WebSocketAddress) -> None:
    """IPv4, and IPv6 in brackets."""
    assert parse_listen_url(url) == address


@pytest.mark.parametrize("url", ["", "stdio", "stdio://x", "wss://127.0.0.1:1", "http://127.0.0.1:1", "127.0.0.1:1"])
def test_other_schemes_are_unsupported(url: str) -> None:
    """The message names the URL and what would do."""
    with pytest.raises(ListenError) as caught:
        parse_listen_url(url)
    assert str(caught.value) == f"unsupported --listen URL `{url}`; expected `stdio://` or `ws://IP:PORT`"


@pytest.mark.parametrize(
    "url",
    [
        "ws://",
        "ws://localhost:80",
        "ws://127.0.0.1",
        "ws://127.0.0.1:",
        "ws://127.0.0.1:65536",
        "ws://127.0.0.1:-1",
        "ws://127.0.0.1:+1",
        "ws://127.0.0.1:80/",
        "ws://127.0.0.1:80\n",
        "ws://127.0.0.1:８０",
        "ws://127.0.0.256:80",
        "ws://127.1:80",
        "ws://::1:80",
        "ws://[::1]",
        "ws://[::g]:80",
        "ws://[127.0.0.1]:80",
        "ws://[fe80::1%eth0]:80",
    ],
)
def test_bad_addresses_are_invalid(url: str) -> None:
    """Host names, ports out of range, anything after the port."""
    with pytest.raises(ListenError) as caught:
        parse_listen_url(url)
    assert str(caught.value) == f"invalid websocket --listen URL `{url}`; expected `ws://IP:PORT`"


@pytest.mark.parametrize(
    "host, expected",
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("0.0.0.0", False), ("::", False), ("10.0.0.1", False)],
)
def test_loopback(host: str, expected: bool) -> None:
    """Only addresses that no other machine reaches."""
    assert WebSocketAddress(host, 1).is_loopback is expected
