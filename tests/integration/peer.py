"""A peer of the real program, over stdio or a websocket. It judges all that it receives by the schemas."""

from __future__ import annotations

import base64
import itertools
import json
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from links import PATIENCE, Link, Program, StdioLink, WebSocketLink

from execsrv import schemas

Json: TypeAlias = dict[str, Any]

CODES = {-32700, -32600, -32602, -32603, -32004}

KINDS = {
    *("parseError", "invalidMessage", "unknownMethod", "notInitialized", "alreadyInitialized", "invalidParams"),
    *("duplicateProcess", "unknownProcess", "processForgotten", "stdinClosed", "noTerminal", "processExited"),
    *("sandboxUnsupported", "spawnNotFound", "spawnPermissionDenied", "spawnFailed", "limitExceeded", "notFound"),
    *("permissionDenied", "alreadyExists", "notADirectory", "isADirectory", "directoryNotEmpty", "unknownHandle"),
    *("duplicateHandle", "invalidInput", "tooLarge", "ioError", "internal"),
}

PATH = {"PATH": os.environ["PATH"]}


@dataclass(frozen=True, slots=True)
class Life:
    """All that was told of a closed process; the bytes of each stream, and the params of its last notifications."""

    stdout: bytes
    stderr: bytes
    pty: bytes
    exited: Json
    closed: Json


class Peer:
    """One connection. What comes is kept in ``transcript``, in order; who asks for something waits for it."""

    def __init__(self, link: Link, program: Program) -> None:
        self.link = link
        self.program = program
        self.transcript: list[Json] = []
        self.faults: deque[Json] = deque()
        self._answers: dict[str, Json] = {}
        self._asked: dict[str, str] = {}
        self._ids = itertools.count(1)
        self._checker = _Checker()

    @classmethod
    def over_stdio(cls, *options: str, command: list[str] | None = None, **popen: Any) -> Peer:
        """Start a server of its own for it."""
        program = Program(*options, command=command, piped=True, **popen)
        return cls(StdioLink(program), program)

    @classmethod
    def over_websocket(cls, server: Program) -> Peer:
        """Connect to a server."""
        return cls(WebSocketLink(server.url), server)

    def close(self) -> None:
        """Hang up; a server over stdio ends with it."""
        self.link.close()

    # ---- out -------------------------------------------------------------------------------------------------------

    def send(self, message: Json) -> None:
        """Send a message as it is."""
        if isinstance(message.get("id"), (int, str)) and isinstance(message.get("method"), str):
            self._asked[_key(message["id"])] = message["method"]
        self.link.send(json.dumps(message).encode())

    def request(self, method: str, **params: Any) -> int:
        """Send a request and return its id."""
        id = next(self._ids)
        self.send({"id": id, "method": method, "params": params})
        return id

    def notify(self, method: str, **params: Any) -> None:
        """Send a notification."""
        self.send({"method": method, "params": params})

    def handshake(self) -> Peer:
        """Open the conversation."""
        self.call("initialize", clientName="tests")
        self.notify("initialized")
        return self

    # ---- in --------------------------------------------------------------------------------------------------------

    def receive(self) -> Json:
        """The next message. Raises EOFError at the end, TimeoutError after PATIENCE seconds."""
        data = self.link.receive(PATIENCE)
        if data is None:
            raise EOFError("the server ended the connection")
        message: Json = json.loads(data)
        self._take(message)
        return message

    def _take(self, message: Json) -> None:
        self.transcript.append(message)
        if "method" in message:
            self._checker.check_notification(message)
            return
        key = _key(message["id"])
        method = self._asked.pop(key, None)
        self._checker.check_answer(message, method)
        if message["id"] == -1 and method is None:
            self.faults.append(message["error"])
        else:
            assert key not in self._answers, f"answered twice: {message}"
            self._answers[key] = message

    def answer(self, id: int | str) -> Json:
        """The answer to a request, waited for."""
        while _key(id) not in self._answers:
            self.receive()
        return self._answers.pop(_key(id))

    def result(self, id: int | str) -> Json:
        """The result of a request, which must have one."""
        answer = self.answer(id)
        assert "result" in answer, answer
        result: Json = answer["result"]
        return result

    def error(self, id: int | str) -> Json:
        """The error of a request, which must fail."""
        answer = self.answer(id)
        assert "error" in answer, answer
        error: Json = answer["error"]
        return error

    def fault(self) -> Json:
        """The next error that belongs to no request."""
        while not self.faults:
            self.receive()
        return self.faults.popleft()

    def call(self, method: str, **params: Any) -> Json:
        """Ask, and wait for the result."""
        return self.result(self.request(method, **params))

    def refused(self, method: str, **params: Any) -> Json:
        """Ask, and wait for the error."""
        return self.error(self.request(method, **params))

    def event(self, method: str, process_id: str) -> Json:
        """The params of a process's first such notification, waited for."""
        for message in itertools.chain(list(self.transcript), self._coming()):
            if message.get("method") == method and message["params"]["processId"] == process_id:
                params: Json = message["params"]
                return params
        raise TimeoutError(f"no {method} of {process_id}")

    def _coming(self) -> Iterator[Json]:
        deadline = time.monotonic() + 2 * PATIENCE  # a flood must not hide that nothing else comes
        while time.monotonic() < deadline:
            yield self.receive()

    def end(self) -> list[Json]:
        """Wait for the end of the connection and return the whole transcript."""
        try:
            while True:
                self.receive()
        except EOFError:
            return self.transcript

    # ---- processes -------------------------------------------------------------------------------------------------

    def new_id(self) -> str:
        """A process id that is not in use."""
        return f"process-{next(self._ids)}"

    def request_start(self, *argv: str, **params: Any) -> tuple[int, str]:
        """Send ``process/start``; the request's and the process's id."""
        given = {"processId": self.new_id(), "argv": argv, "cwd": "/", "env": PATH, "tty": False, **params}
        return self.request("process/start", **given), given["processId"]

    def start(self, *argv: str, **params: Any) -> str:
        """Start a process; its id."""
        id, process_id = self.request_start(*argv, **params)
        assert self.result(id) == {"processId": process_id}
        return process_id

    def refused_start(self, *argv: str, **params: Any) -> Json:
        """The error of a start that must fail."""
        return self.error(self.request_start(*argv, **params)[0])

    def run(self, *argv: str, **params: Any) -> Life:
        """Start a process and wait until it is closed."""
        return self.finish(self.start(*argv, **params))

    def finish(self, process_id: str) -> Life:
        """Wait until a process is closed."""
        closed = self.event("process/closed", process_id)
        exited = self.event("process/exited", process_id)
        stdout, stderr, pty = (self.output(process_id, name) for name in ("stdout", "stderr", "pty"))
        return Life(stdout, stderr, pty, exited, closed)

    def output(self, process_id: str, stream: str = "stdout") -> bytes:
        """What has come of a stream so far."""
        return b"".join(_chunks(self.transcript, process_id, stream))

    def wait_for_output(self, process_id: str, wanted: bytes, stream: str = "stdout") -> bytes:
        """Receive until a stream holds ``wanted``; all of it so far."""
        while wanted not in self.output(process_id, stream):
            self.receive()
        return self.output(process_id, stream)

    def leave_nothing(self) -> None:
        """Terminate what is not closed, wait for that, and forget what came."""
        for process_id in self._checker.open_processes():
            self.call("process/terminate", processId=process_id)
            self.event("process/closed", process_id)
        for process_id in self._checker.open_first_cut():
            self.call("command/exec/terminate", processId=process_id)
        while self._checker.open_first_cut():
            self.receive()
        for kept in (self.transcript, self.faults, self._answers, self._asked):
            kept.clear()


class _Checker:
    """What holds for every message: its shape, the schemas, and the order within a process."""

    def __init__(self) -> None:
        self._next_seqs: dict[str, int | None] = {}
        self._first_cut: Counter[str] = Counter()

    def open_processes(self) -> list[str]:
        """Those that were started and are not closed."""
        return [process_id for process_id, seq in self._next_seqs.items() if seq is not None]

    def open_first_cut(self) -> list[str]:
        """The ids of those first-cut processes whose exit was not told."""
        return [process_id for process_id, running in self._first_cut.items() if running]

    def check_answer(self, message: Json, method: str | None) -> None:
        if "error" in message:
            assert message.keys() == {"id", "error"}, message
            check_error(message["error"])
        else:
            assert message.keys() == {"id", "result"}, message
            if method in schemas.methods():
                schemas.validate_result(str(method), message["result"])
            if method == "command/exec":
                self._first_cut[message["result"]["processId"]] += 1

    def check_notification(self, message: Json) -> None:
        assert message.keys() == {"method", "params"}, message
        method, params = message["method"], message["params"]
        assert schemas.kind(method) == "serverNotification"
        schemas.validate_params(method, params)
        if method.startswith("process/"):
            self._check_order(method, params)
        elif method == "command/exec/exited":
            self._first_cut[params["processId"]] -= 1

    def _check_order(self, method: str, params: Json) -> None:
        """``started`` is first, seqs count up from 1 without a gap, ``closed`` is last."""
        process_id = params["processId"]
        if method == "process/started":
            assert self._next_seqs.get(process_id) is None, f"started twice: {params}"
            self._next_seqs[process_id] = 1
            return
        assert params["seq"] == self._next_seqs[process_id], params
        self._next_seqs[process_id] = None if method == "process/closed" else params["seq"] + 1


def check_error(error: Json) -> None:
    """An error object has a known code, a message without a traceback, and a known kind."""
    assert error.keys() == {"code", "message", "data"}, error
    assert error["code"] in CODES, error
    assert error["message"] and "Traceback" not in error["message"], error
    assert error["data"]["kind"] in KINDS, error


def _key(id: Any) -> str:
    """Ids that Python takes for equal, such as 1 and True, are different on the wire."""
    return json.dumps(id)


def _chunks(transcript: list[Json], process_id: str, stream: str) -> list[bytes]:
    found = []
    for message in transcript:
        if message.get("method") == "process/output":
            params = message["params"]
            if params["processId"] == process_id and params["stream"] == stream:
                found.append(base64.b64decode(params["chunk"], validate=True))
    return found


#: Fixtures that open peers, with whatever the makers of Peer take.
OpenPeer: TypeAlias = Callable[..., Peer]
