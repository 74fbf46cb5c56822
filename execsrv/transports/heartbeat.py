"""Tells a dead peer from a quiet or a slow one."""

from __future__ import annotations

import fcntl
import socket
import struct
import time
from typing import Protocol

#: Bytes that TCP has taken from us and not sent yet, as an int (linux/sockios.h; see tcp(7), SIOCOUTQ).
_SIOCOUTQNSD = 0x894B


class Direction(Protocol):
    """What is known of one direction of the connection; see ``descriptors``."""

    waiting_since: float | None
    waited_until: float


class Heartbeat:
    """When to ping, and whether the peer is dead. Times are monotonic seconds.

    Dead is who lets two intervals pass without a byte, and a ping for one. Only such time counts in which we wait
    for its bytes and none of our output is held up in front of the ping: whether a peer that does not read is still
    there, TCP's own retries find out.
    """

    def __init__(self, interval: float, sock: socket.socket, source: Direction, sink: Direction) -> None:
        self._interval = interval
        self._socket = sock
        self._source = source
        self._sink = sink
        self._held_up_until = 0.0
        self._next_ping = time.monotonic() + interval
        self._asked_at = 0.0  # when the first ping since the last byte left

    def is_ping_due(self, now: float) -> bool:
        """Is it time for a ping, which nothing of ours would hold up? Tell ``pinged`` when it has left."""
        return now >= self._next_ping and not self._is_held_up(now)

    def pinged(self, now: float) -> None:
        """A ping has left."""
        self._next_ping = now + self._interval
        quiet_since = self._quiet_since()
        if quiet_since is not None and self._asked_at < quiet_since:
            self._asked_at = now

    def is_peer_dead(self, now: float) -> bool:
        """Is the peer gone?"""
        deadline = self._deadline()
        return deadline is not None and now >= deadline and not self._is_held_up(now) and not self._has_input()

    def seconds_to_next_look(self, now: float) -> float:
        """How long to sleep until a ping or a verdict may be due."""
        deadline = self._deadline()
        if deadline is None or deadline <= now:
            deadline = now + self._interval
        next_ping = self._next_ping if self._next_ping > now else now + self._interval
        return min(deadline, next_ping) - now

    def _deadline(self) -> float | None:
        """When the peer counts as dead; None while it has not been asked."""
        quiet_since = self._quiet_since()
        if quiet_since is None or self._asked_at < quiet_since:
            return None
        return max(quiet_since + 2 * self._interval, self._asked_at + self._interval)

    def _quiet_since(self) -> float | None:
        """Since when the peer could have been heard; None while nobody listens."""
        if self._source.waiting_since is None:
            return None
        return max(self._source.waiting_since, self._sink.waited_until, self._held_up_until)

    def _is_held_up(self, now: float) -> bool:
        """Does output of ours wait, here or in TCP's queue, since the peer does not read?"""
        held_up = self._sink.waiting_since is not None or _unsent_bytes(self._socket) > 0
        if held_up:
            self._held_up_until = now
        return held_up

    def _has_input(self) -> bool:
        """Has something arrived that was not read yet, since this process did not get to run?"""
        try:
            self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True  # the reader is about to find out
        return True


def _unsent_bytes(sock: socket.socket) -> int:
    (count,) = struct.unpack("i", fcntl.ioctl(sock, _SIOCOUTQNSD, bytes(4)))
    return int(count)
