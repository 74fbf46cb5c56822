"""What several parts of the protocol share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

#: Largest ``chunk`` of one output event, in bytes.
OUTPUT_CHUNK_BYTES = 64 * 1024

StreamName: TypeAlias = Literal["stdout", "stderr", "pty"]
ExitReason: TypeAlias = Literal["exited", "signaled", "terminated", "timeout", "connectionClosed", "shutdown"]


@dataclass(slots=True)
class Empty:
    """A result without fields."""
