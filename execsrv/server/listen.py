"""Where a server listens: the value of ``--listen``. No I/O."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

STDIO_URL = "stdio://"

_ADDRESS = re.compile(r"ws://(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<v4>[0-9.]+)):(?P<port>[0-9]{1,5})")


class ListenError(ValueError):
    """The URL names no place to listen; the message is for people."""


@dataclass(frozen=True, slots=True)
class WebSocketAddress:
    """An IPv4 or IPv6 address, without brackets, and a TCP port; port 0 picks one."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Can only this machine reach it?"""
        return ipaddress.ip_address(self.host).is_loopback


def parse_listen_url(url: str) -> WebSocketAddress | None:
    """The websocket address of ``ws://IP:PORT``; None for ``stdio://``. Raises ListenError.

    A host name, a path (also a lone slash) and a zone of an IPv6 address are refused.
    """
    if url == STDIO_URL:
        return None
    if not url.startswith("ws://"):
        raise ListenError(f"unsupported --listen URL `{url}`; expected `stdio://` or `ws://IP:PORT`")
    match = _ADDRESS.fullmatch(url)
    if match is None or int(match["port"]) > 0xFFFF or not _is_address(match):
        raise ListenError(f"invalid websocket --listen URL `{url}`; expected `ws://IP:PORT`")
    return WebSocketAddress(match["v6"] or match["v4"], int(match["port"]))


def _is_address(match: re.Match[str]) -> bool:
    try:
        ipaddress.IPv6Address(match["v6"]) if match["v6"] else ipaddress.IPv4Address(match["v4"])
    except ValueError:
        return False
    return True
