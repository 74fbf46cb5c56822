"""A server in the test's own process, on a thread, that says what the test wants."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

from execsrv import ExecServerClient

WAIT = 20.0

Message: TypeAlias = dict[str, Any]
Handler: TypeAlias = Callable[[Message], Any]

INITIALIZE_RESULT = {
    "protocolVersion": "exec-server.v0",
    "sessionId": "fake",
    "capabilities": dict.fromkeys(
        ["envPolicy", "processAck", "processClosed", "processDrainTimeout", "processTimeout"], True
    ),
    "environmentInfo": {
        "shell": {"name": "sh", "path": "/bin/sh"},
        "executorVersion": "0",
        "cwd": "/fake",
        "userHomeDir": "/fake/home",
        "platformOs": "linux",
        "tempDir": "/fake/tmp",
    },
}


class FakeServer:
    """Speaks lines over one end of a socket pair.

    ``handlers`` answer methods; a handler returns the result, or None to leave the answer to the test. What has no
    handler is not answered. All that arrives is in ``received``.
    """

    def __init__(self, **initialize_result: Any) -> None:
        self.socket, self._client_socket = socket.socketpair()
        self.received: list[Message] = []
        self.handlers: dict[str, Handler] = {
            "initialize": lambda message: {**INITIALIZE_RESULT, **initialize_result},
            "process/start": lambda message: {"processId": message["params"]["processId"]},
            "process/terminate": lambda message: {"running": True},
        }
        self.ended = threading.Event()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def descriptors(self) -> tuple[int, int]:
        """The client's descriptors for reading and writing, which belong to the caller."""
        second = self._client_socket.dup()
        return self._client_socket.detach(), second.detach()

    def connect(self, **options: Any) -> ExecServerClient:
        """A client of this server."""
        return ExecServerClient.connect_stdio(*self.descriptors(), **options)

    def send(self, message: Message) -> None:
        """Send a message."""
        self.send_raw(json.dumps(message).encode() + b"\n")

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    def notify(self, method: str, **params: Any) -> None:
        """Send a notification."""
        self.send({"method": method, "params": params})

    def output(self, process_id: str, seq: int, chunk: bytes, stream: str = "stdout") -> None:
        """Send output of a process."""
        text = base64.b64encode(chunk).decode()
        self.notify("process/output", processId=process_id, seq=seq, stream=stream, chunk=text)

    def exited(self, process_id: str, seq: int, code: int = 0) -> None:
        """Send the end of a process."""
        self.notify(
            "process/exited", processId=process_id, seq=seq, exitCode=code, signal=None, reason="exited"
        )

    def closed(self, process_id: str, seq: int) -> None:
        """Send the end of a process's streams."""
        self.notify("process/closed", processId=process_id, seq=seq, outputComplete=True)

    def answer(self, request: Message, result: Any) -> None:
        """Answer a request."""
        self.send({"id": request["id"], "result": result})

    def refuse(self, request: Message, code: int = -32600, message: str = "no", **data: Any) -> None:
        """Answer a request with an error."""
        self.send({"id": request["id"], "error": {"code": code, "message": message, "data": data}})

    def wait_for(self, method: str, number: int = 1) -> Message:
        """The ``number``th message with this method, once it has come."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.of(method)) >= number, WAIT), f"no {method} came"
            return self.of(method)[number - 1]

    def of(self, method: str) -> list[Message]:
        """What has come with this method."""
        return [message for message in self.received if message["method"] == method]

    def die(self) -> None:
        """Cut the connection."""
        self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the thread and the connection."""
        with contextlib.suppress(OSError):
            self.die()
        self._thread.join(WAIT)
        self.socket.close()
        self._client_socket.close()

    def _run(self) -> None:
        with self.socket.makefile("rb") as lines:
            try:
                for line in lines:
                    self._handle(json.loads(line))
            except OSError:
                pass
        self.ended.set()
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def _handle(self, message: Message) -> None:
        with self._changed:
            self.received.append(message)
            self._changed.notify_all()
        handler = self.handlers.get(message["method"])
        result = handler(message) if handler else None
        if result is not None:
            self.answer(message, result)
