"""The server's limits, as one value that is handed in."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class ExecServerConfig:
    """What a server allows. Whoever starts it sets the fields; no request can.

    max_message_bytes: longest message taken from, or sent to, a peer.
    max_read_file_bytes: largest file that ``fs/readFile`` reads.
    retained_output_bytes: newest output kept for each process.
    exited_retention_ms: how long a closed process stays readable.
    max_processes_per_connection: processes of one connection that are not closed.
    max_connections: websocket connections at one time.
    shutdown_grace_ms: time between SIGTERM and SIGKILL when the server stops; 0 kills at once.
    """

    max_message_bytes: int = 64 * MIB
    max_read_file_bytes: int = 512 * MIB
    retained_output_bytes: int = 1 * MIB
    exited_retention_ms: int = 30_000
    max_processes_per_connection: int = 256
    max_connections: int = 256
    shutdown_grace_ms: int = 0


#: The largest size or count, and the longest time (a day), that can be set.
MAX_INTEGER = 2**53 - 1
MAX_MS = 86_400_000

#: The range of each field, and what it means.
LIMITS = {
    "max_message_bytes": (1024, MAX_INTEGER, "longest message taken or sent"),
    "max_read_file_bytes": (0, MAX_INTEGER, "largest file that fs/readFile reads"),
    "retained_output_bytes": (1, MAX_INTEGER, "newest output kept for each process"),
    "exited_retention_ms": (0, MAX_MS, "how long a closed process stays readable"),
    "max_processes_per_connection": (1, MAX_INTEGER, "processes of a connection that are not closed"),
    "max_connections": (1, MAX_INTEGER, "websocket connections at one time"),
    "shutdown_grace_ms": (0, MAX_MS, "time between SIGTERM and SIGKILL for the processes when the server stops"),
}
