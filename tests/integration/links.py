"""The real program as a child process, and ways to pass messages to it and back."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import threading
import time
from typing import Any, Protocol

from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.sync.client import connect

#: Longest wait for anything, in seconds. Generous, since the machine may be busy.
PATIENCE = 20.0


class Program:
    """``python -m execsrv`` with these options; what it logs is collected. ``piped``: its stdin and stdout are ours."""

    def __init__(self, *options: str, command: list[str] | None = None, piped: bool = False, **popen: Any) -> None:
        stream = subprocess.PIPE if piped else subprocess.DEVNULL
        popen = {"stdin": stream, "stdout": stream, **popen}
        self.process = subprocess.Popen(
            [*(command or [sys.executable, "-m", "execsrv"]), *options], stderr=subprocess.PIPE, bufsize=0, **popen
        )
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._collector = threading.Thread(target=self._collect, daemon=True)
        self._collector.start()

    @classmethod
    def listening(cls, *options: str, **popen: Any) -> Program:
        """A websocket server on a free port."""
        return cls("--listen", "ws://127.0.0.1:0", *options, **popen)

    @property
    def pid(self) -> int:
        """Its pid."""
        return self.process.pid

    @property
    def log(self) -> str:
        """What it has written to stderr so far."""
        with self._changed:
            return "".join(self._lines)

    @property
    def url(self) -> str:
        """Where it listens; waits until it does."""
        marker = "execsrv listening on "
        with self._changed:
            assert self._changed.wait_for(lambda: any(marker in line for line in self._lines), PATIENCE), self._lines
            return next(line for line in self._lines if marker in line).split()[-1]

    def wait(self) -> int:
        """Wait for its end; its exit code. Its log is complete then."""
        code = self.process.wait(PATIENCE)
        self._collector.join(PATIENCE)
        return code

    def end(self) -> None:
        """Stop it; a server that logged a traceback has a bug."""
        self.process.terminate()
        try:
            self.wait()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.wait()
            raise
        finally:
            for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
                if stream:
                    stream.close()
        assert "Traceback" not in self.log, self.log

    def _collect(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            with self._changed:
                self._lines.append(line.decode())
                self._changed.notify_all()


class Link(Protocol):
    """Moves messages; every wait has an end."""

    def send(self, message: bytes) -> None:
        """Send one message."""

    def receive(self, timeout: float) -> bytes | None:
        """The next message; None at the end. Raises TimeoutError."""

    def close(self) -> None:
        """Hang up."""


class StdioLink:
    """Lines over the pipes of a program, which it ends."""

    def __init__(self, program: Program) -> None:
        self._program = program
        assert program.process.stdin and program.process.stdout
        self._stdin, self._stdout = program.process.stdin, program.process.stdout
        os.set_blocking(self._stdin.fileno(), False)
        self._buffer = bytearray()

    def send(self, message: bytes) -> None:
        """Send one line."""
        self.send_raw(message + b"\n")

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        view = memoryview(data)
        while view:
            _wait(self._stdin.fileno(), select.POLLOUT, PATIENCE)
            view = view[os.write(self._stdin.fileno(), view) :]

    def receive(self, timeout: float) -> bytes | None:
        """The next line. Raises TimeoutError."""
        deadline = time.monotonic() + timeout
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            _wait(self._stdout.fileno(), select.POLLIN, deadline - time.monotonic())
            data = os.read(self._stdout.fileno(), 256 * 1024)
            if not data:
                assert not self._buffer, "the last line has no end"
                return None
            self._buffer += data
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def end_input(self) -> None:
        """End of file for the server."""
        self._stdin.close()

    def close(self) -> None:
        """Close both pipes and see the program end."""
        self._stdin.close()
        self._stdout.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._program.process.wait(PATIENCE)
        self._program.end()


class WebSocketLink:
    """Text messages over a websocket."""

    def __init__(self, url: str, **options: Any) -> None:
        given = {"compression": None, "max_size": None, "ping_interval": None, "open_timeout": PATIENCE, **options}
        self._stack = contextlib.ExitStack()
        self.connection = self._stack.enter_context(connect(url, **given))

    def send(self, message: bytes) -> None:
        """Send one text message."""
        self.connection.send(message.decode())

    def receive(self, timeout: float) -> bytes | None:
        """The next message, which must be a text. Raises TimeoutError."""
        try:
            message = self.connection.recv(timeout)
        except ConnectionClosed:
            return None
        assert isinstance(message, str), "a binary message"
        return message.encode()

    def close_code(self) -> int | None:
        """Wait for the server's close frame; its code."""
        try:
            while True:
                self.connection.recv(PATIENCE)
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else None

    def close(self) -> None:
        """Say goodbye, take what still comes (the library's own close waits for its buffer), and close."""
        with contextlib.suppress(OSError):
            self.connection.socket.sendall(Frame(Opcode.CLOSE, (1000).to_bytes(2, "big")).serialize(mask=True))
        self.close_code()
        self._stack.close()


def ask_for_upgrade(url: str, **changes: str | None) -> tuple[socket.socket, str]:
    """Send the request of a websocket handshake, with these headers changed or (None) left out.

    The socket, to be closed by the caller, and the status line of the answer, whose head is read.
    """
    host, port = url.removeprefix("ws://").rsplit(":", 1)
    headers = {"Host": f"{host}:{port}", "Upgrade": "websocket", "Connection": "Upgrade"}
    headers |= {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
    headers |= {name.replace("_", "-"): value for name, value in changes.items()}  # type: ignore[misc]
    lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
    sock = socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE)
    sock.sendall("\r\n".join(["GET / HTTP/1.1", *lines, "", ""]).encode())
    head = b""
    while b"\r\n\r\n" not in head and (byte := sock.recv(1)):
        head += byte
    return sock, head.split(b"\r\n")[0].decode()


def _wait(fd: int, events: int, timeout: float) -> None:
    poll = select.poll()
    poll.register(fd, events)
    if not poll.poll(max(0.0, timeout) * 1000):
        raise TimeoutError(f"nothing happened for {timeout:.0f} s")
