"""gunicorn with our workers as a child process."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from links import Program
from peer import Peer
from proc import children, eventually

WORKER = "execsrv.gunicorn.Worker"

#: A newer gunicorn makes a socket in the home directory, by which it can be controlled.
CONFIG = "control_socket_disable = True\n"

#: The limit of open files with which it is started.
DESCRIPTORS = 512


class Gunicorn(Program):
    """gunicorn on a free port; ``options`` are its own, ``config`` its configuration file, ``variables`` for us."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        config: str = "",
        variables: dict[str, str] | None = None,
        worker: str = WORKER,
        bind: str = "127.0.0.1:0",
    ) -> None:
        path = folder / "gunicorn.conf.py"
        path.write_text(CONFIG + config)
        command = ["sh", "-c", f'ulimit -Sn {DESCRIPTORS}; exec "$@"', "sh"]
        command += [sys.executable, "-m", "gunicorn", "--config", str(path), "--worker-class", worker, "--bind", bind]
        environment = {**os.environ, **{f"EXECSRV_{name}": value for name, value in (variables or {}).items()}}
        super().__init__(*options, "execsrv.gunicorn:application", command=command, env=environment)

    @property
    def url(self) -> str:
        """Where it listens; waits until it does."""
        return "ws://" + self.logged(r"Listening at: http://(\S+)")[1]

    def logged(self, pattern: str) -> re.Match[str]:
        """The first place in the log that matches, waited for."""
        assert eventually(lambda: bool(re.search(pattern, self.log))), self.log
        match = re.search(pattern, self.log)
        assert match
        return match

    def workers(self) -> set[int]:
        """The pids of the workers, once there are some."""
        assert eventually(lambda: bool(children(self.pid))), self.log
        return set(children(self.pid))


def worker_of(peer: Peer) -> int:
    """The pid of the server that a peer talks to."""
    return int(peer.run("sh", "-c", "echo $PPID").stdout)
