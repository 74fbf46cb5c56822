"""Native threads for the system calls that may block: a hub must never wait for a disk."""

from __future__ import annotations

from execsrv.server.threads import Threads

#: Threads that start processes: a program on a dead mount holds one of them, not all starts.
SPAWN_THREADS = 8

#: Threads for file requests: each connection uses one at a time.
FILE_THREADS = 16


class Workers:
    """The threads of one hub."""

    def __init__(self) -> None:
        self.spawn = Threads(SPAWN_THREADS)
        self.files = Threads(FILE_THREADS)

    def close(self) -> None:
        """Let the threads end, each as soon as it has nothing to do."""
        self.spawn.close()
        self.files.close()
