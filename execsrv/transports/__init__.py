"""Ways to move messages on the server's side. They know nothing of methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class MessageTooLarge(Exception):
    """The peer sent a message above the limit; it was skipped and the transport goes on.

    A transport that can't skip one closes instead.
    """


class TransportClosed(Exception):
    """The peer is gone, or the transport was closed here: nothing can be sent any more."""


class Transport(Protocol):
    """Messages in both directions. One greenlet receives, one sends, any may close."""

    def receive(self) -> bytes | None:
        """Wait for the next message; None at the end. Raises MessageTooLarge."""

    def send(self, messages: Sequence[bytes]) -> None:
        """Send these messages in order; wait until the system has taken them. Raises TransportClosed."""

    def close(self) -> None:
        """End both directions and wake who waits; twice is harmless."""
