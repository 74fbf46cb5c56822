"""The program at work for the tests of ``execsrv run``, and what they ask the system."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, TypeAlias

from websockets.sync.server import ServerConnection, serve

Message: TypeAlias = dict[str, Any]

#: Longest wait for anything, in seconds.
PATIENCE = 20.0

PROGRAM = [sys.executable, "-m", "execsrv"]
STOP_SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]


class Server:
    """A websocket server with a variable of its own."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [*PROGRAM, "--listen", "ws://127.0.0.1:0"],
            stderr=subprocess.PIPE,
            env={**os.environ, "OF_THE_SERVER": "yes"},
        )
        assert self.process.stderr
        self.url = self.process.stderr.readline().decode().split()[-1]

    def end(self) -> None:
        """Stop it."""
        self.process.terminate()
        self.process.communicate(timeout=PATIENCE)


@contextlib.contextmanager
def fake_server(further: Callable[[Message], list[Message]]) -> Iterator[str]:
    """A server that does nothing: it answers, and sends what ``further`` makes of the request. Gives its URL."""

    def answer(connection: ServerConnection) -> None:
        for request in map(json.loads, connection):
            if "id" in request:
                for message in [{"id": request["id"], "result": _result(request)}, *further(request)]:
                    connection.send(json.dumps(message))

    with serve(answer, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()
        thread.join(PATIENCE)


def _result(request: Message) -> Message:
    if request["method"] != "initialize":
        return {"processId": request["params"]["processId"]}
    names = ("executorVersion", "cwd", "userHomeDir", "platformOs", "tempDir")
    return {
        "protocolVersion": "exec-server.v0",
        "sessionId": "fake",
        "capabilities": dict.fromkeys(("envPolicy", "processClosed", "processCloseStdin", "processResize"), True),
        "environmentInfo": {"shell": {"name": "sh", "path": "/bin/sh"}, **dict.fromkeys(names, "/")},
    }


def ending(request: Message, code: int) -> list[Message]:
    """The notifications that the process of ``request`` has ended."""
    process_id = request["params"]["processId"]
    exited = {"processId": process_id, "seq": 1, "exitCode": code, "signal": None, "reason": "exited"}
    closed = {"processId": process_id, "seq": 2, "outputComplete": True}
    return [{"method": "process/exited", "params": exited}, {"method": "process/closed", "params": closed}]


def run(*words: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run to the end with these words, stdin empty; stdout and stderr are collected."""
    streams = options if "input" in options else {"stdin": subprocess.DEVNULL, **options}
    return subprocess.run([*PROGRAM, "run", *words], capture_output=True, timeout=PATIENCE, **streams)


@contextlib.contextmanager
def running(*words: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """The program at work, stdin empty, with pipes for its output; killed at the end if it still runs."""
    pipe, empty = subprocess.PIPE, subprocess.DEVNULL
    streams: dict[str, Any] = {"stdin": empty, "stdout": pipe, "stderr": pipe, **options}
    with subprocess.Popen([*PROGRAM, "run", *words], bufsize=0, **streams) as program:
        try:
            yield program
        finally:
            program.kill()


def eventually(condition: Callable[[], bool]) -> bool:
    """Look again and again, for what nothing tells, until it holds; False after PATIENCE seconds."""
    deadline = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def line_of(program: subprocess.Popen[bytes]) -> bytes:
    """The next line of its stdout."""
    assert program.stdout
    return program.stdout.readline()


def pending(stream: IO[bytes]) -> int:
    """Bytes that wait in a pipe."""
    return int(struct.unpack("i", fcntl.ioctl(stream, termios.FIONREAD, bytes(4)))[0])


def read_exactly(stream: IO[bytes], size: int) -> bytes:
    """So many bytes, fewer only at the end."""
    data = bytearray()
    while len(data) < size and (piece := stream.read(size - len(data))):
        data += piece
    return bytes(data)


def peak_bytes(pid: int) -> int:
    """The most memory that a process has had resident."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def children(pid: int) -> list[int]:
    """The children of a process."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


#: Prints the pids of itself and of a child in its group, then goes on for long.
GROUP = ["sh", "-c", "sleep 1000 & echo $$ $!; wait"]
