"""Which HTTP requests may become a websocket (RFC 6455 section 4.2.1, and who may ask). No I/O.

A web page can open a websocket to any address that its browser reaches. It can't hide its ``Origin``, nor, when it
gave its own name our address (DNS rebinding), the name in ``Host``: so both must be known ones.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from email.message import Message
from typing import TypeAlias

Headers: TypeAlias = "Message[str, str]"

_VERSION = "13"


class Refusal(ValueError):
    """The request is answered with this HTTP status, and the connection closed."""

    def __init__(self, status: str, words: str) -> None:
        super().__init__(words)
        self.status = status

    def response(self) -> bytes:
        """The whole answer. It names our protocol, as 426 demands (RFC 9110 section 15.5.22)."""
        body = f"{self}\n".encode()
        head = (
            f"HTTP/1.1 {self.status}\r\nUpgrade: websocket\r\nConnection: Upgrade, close\r\n"
            f"Sec-WebSocket-Version: {_VERSION}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


@dataclass(frozen=True, slots=True)
class Allowed:
    """Who is let in besides programs on plain addresses: origins as browsers write them, host names in lower case."""

    origins: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()

    @classmethod
    def of(cls, origins: Iterable[str], hosts: Iterable[str]) -> Allowed:
        """These origins, and these host names in any case."""
        return cls(frozenset(origins), frozenset(name.lower() for name in hosts))


def check_request(method: str, http_version: str, headers: Headers, allowed: Allowed) -> None:
    """Raises Refusal unless this request may be upgraded."""
    check_upgrade(method, http_version, headers)
    check_host(headers, allowed.hosts)
    check_origin(headers, allowed.origins)
    check_key(headers)


def check_upgrade(method: str, http_version: str, headers: Headers) -> None:
    """Raises Refusal 426 for what does not ask for a websocket of our version, 400 for what is no plain request."""
    connection = ",".join(headers.get_all("Connection", [])).lower().split(",")
    asks = (
        method == "GET"
        and http_version == "HTTP/1.1"
        and headers.get("Upgrade", "").strip().lower() == "websocket"
        and "upgrade" in [option.strip() for option in connection]
    )
    if not asks:
        raise Refusal("426 Upgrade Required", "only websockets are served here")
    if headers.get_all("Sec-WebSocket-Version") != [_VERSION]:
        raise Refusal("426 Upgrade Required", f"only version {_VERSION} of the websocket protocol is served here")
    if "Transfer-Encoding" in headers or headers.get("Content-Length", "0") != "0" or headers.defects:
        raise Refusal("400 Bad Request", "a websocket handshake is a request without a body")


def check_host(headers: Headers, allowed: frozenset[str]) -> None:
    """Raises Refusal 400 without one ``Host``, 403 unless that is an address, localhost or an allowed name."""
    hosts = headers.get_all("Host", [])
    if len(hosts) != 1:
        raise Refusal("400 Bad Request", "one Host header is needed")
    if not is_known_host(hosts[0], allowed):
        raise Refusal("403 Forbidden", "this Host is not allowed")


def is_known_host(host: str, allowed: frozenset[str]) -> bool:
    """Is ``NAME``, ``ADDRESS`` or ``[ADDRESS]``, with or without a port, one that no stranger can point at us?"""
    match = re.fullmatch(r"(?:\[(?P<v6>[^\]]*)\]|(?P<name>[^:]*))(?::[0-9]*)?", host.strip().lower())
    if match is None:
        return False
    if match["v6"] is not None:
        return _is_address(ipaddress.IPv6Address, match["v6"])
    name = match["name"].removesuffix(".")
    return name == "localhost" or name in allowed or _is_address(ipaddress.IPv4Address, name)


def _is_address(kind: type[ipaddress.IPv4Address] | type[ipaddress.IPv6Address], text: str) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


def check_origin(headers: Headers, allowed: frozenset[str]) -> None:
    """Raises Refusal 403 when the request comes from a web page of an origin that is not allowed exactly."""
    origins = headers.get_all("Origin", [])
    if origins and not (len(origins) == 1 and origins[0].strip() in allowed):
        raise Refusal("403 Forbidden", "this Origin is not allowed")


def check_key(headers: Headers) -> None:
    """Raises Refusal 400 unless there is one key of 16 bytes in base64."""
    keys = headers.get_all("Sec-WebSocket-Key", [])
    try:
        if len(keys) == 1 and len(base64.b64decode(keys[0].strip(), validate=True)) == 16:
            return
    except (binascii.Error, ValueError):  # ValueError: characters beyond ASCII
        pass
    raise Refusal("400 Bad Request", "one Sec-WebSocket-Key of 16 bytes in base64 is needed")
