"""The servers that are measured: how to start one, what the kernel tells of it (proc(5)), and its end."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import quote

#: Longest wait for a server to tell its URL, in seconds.
START_SECONDS = 20.0

_ANNOUNCED = re.compile(rb"ws://[\d.]+:\d+(?=\s)")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Spec:
    """A kind of server.

    command: starts one, which then tells its ws:// URL.
    crowd_options: more words for it, so that it takes thousands of connections and processes.
    environment: variables on top of ours.
    takes_uris: whether it wants paths as ``file://`` URIs.
    max_frame_bytes: the longest frame that it takes.
    """

    name: str
    command: list[str]
    crowd_options: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    takes_uris: bool = False
    max_frame_bytes: int = 2**62

    def path(self, path: str) -> str:
        """An absolute path as this server wants it."""
        return f"file://{quote(path)}" if self.takes_uris else path


EXECSRV = Spec(
    "execsrv",
    [sys.executable, "-m", "execsrv", "--listen", "ws://127.0.0.1:0"],
    crowd_options=["--max-connections", "4096", "--max-processes-per-connection", "4096"],
)

FLOOR = Spec("floor", [sys.executable, str(Path(__file__).with_name("floor.py"))])


def codex(binary: str, home: str) -> Spec:
    """The server of OpenAI's Codex: the path of its program, and a directory for what it keeps.

    It ends a connection that brings a frame above 16 MiB.
    """
    return Spec(
        "Codex",
        [binary, "exec-server", "--listen", "ws://127.0.0.1:0"],
        environment={"HOME": home, "RUST_LOG": "error"},
        takes_uris=True,
        max_frame_bytes=8 * 1024 * 1024,
    )


def specs(home: str) -> list[Spec]:
    """Ours, the floor and, if the variable CODEX_BIN names its program, Codex's, with a directory for it."""
    binary = os.environ.get("CODEX_BIN")
    return [EXECSRV, FLOOR, *([codex(binary, home)] if binary else [])]


class Server:
    """A running server; a context manager that kills it, and what it has started, at the end."""

    def __init__(self, spec: Spec, for_crowds: bool = False) -> None:
        self.spec = spec
        environment = {**os.environ, **spec.environment}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # or each start would compile the program anew
        self._process = subprocess.Popen(
            [*spec.command, *(spec.crowd_options if for_crowds else [])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        try:
            self.url = self._read_url()
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGSTOP)  # so that it neither starts nor reaps a child while we look
        children = _descendants(self._process.pid)
        self._process.kill()
        self._process.communicate(timeout=START_SECONDS)
        for pidfd in children:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)

    def _read_url(self) -> str:
        assert self._process.stdout
        said, deadline = b"", time.monotonic() + START_SECONDS
        while not (found := _ANNOUNCED.search(said)):
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            more = os.read(self._process.stdout.fileno(), 4096) if ready else b""
            if not more:
                raise OSError(f"{self.spec.name} told no URL: {said!r}")
            said += more
        return found[0].decode()

    def cpu_seconds(self) -> float:
        """What it has used so far, without its children."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def resident_kib(self) -> int:
        """Memory that it has resident."""
        return self._status("VmRSS")

    def peak_kib(self) -> int:
        """The most memory that it has had resident since its start or ``forget_peak``."""
        return self._status("VmHWM")

    def forget_peak(self) -> None:
        """Begin anew with ``peak_kib``."""
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")

    def threads(self) -> int:
        """How many threads it has."""
        return self._status("Threads")

    def _status(self, name: str) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(f"{name}:"))


def _descendants(pid: int) -> list[int]:
    """Descriptors for the children of a process and theirs (pidfd_open(2)), as far as they are still related."""
    found = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it may just have ended
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [os.pidfd_open(int(child)), *_descendants(int(child))]
    return found
