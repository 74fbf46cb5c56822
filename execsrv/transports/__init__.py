"""Ways to move messages on the server's side. They know nothing of methods.

A transport belongs to the hub of the thread that makes it; its methods are called from that hub's greenlets, and
``send_now`` also from the hub itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from execsrv.jsonrpc import Encoded


class MessageTooLarge(Exception):
    """The peer sent a message above the limit; it was skipped and the transport goes on.

    A transport that can't skip one closes instead.
    """


class TransportClosed(Exception):
    """The peer is gone, or the transport was closed here: nothing can be sent any more."""


class Transport(Protocol):
    """Messages in both directions. One greenlet receives, one at a time sends, any may close."""

    def receive(self, before_wait: Callable[[], object]) -> bytes | None:
        """Wait for the next message; None at the end, and then always. Raises MessageTooLarge.

        ``before_wait()`` is called whenever none is left of what has come, before waiting for more.
        """

    def send(self, messages: Sequence[Encoded]) -> None:
        """Send these messages in order; wait until the system has taken them. Raises TransportClosed.

        A send that is cut off (its greenlet was killed) leaves half a message behind: every later one raises.
        """

    def send_now(self, messages: Sequence[Encoded]) -> bool:
        """Send as much of these as needs no waiting; call it only while nobody sends.

        True: all are sent. False: ``send`` must follow; it sends the rest first, and raises if nothing can be sent.
        """

    def is_hung_up(self) -> bool:
        """Has the peer closed its side, whatever is still unread? For an owner that does not receive for a while."""

    def close(self) -> None:
        """End both directions and wake who waits; returns within seconds, twice is harmless."""
