"""A peer that hangs up while its connection is not read, since too much of it is open."""

from __future__ import annotations

import json
import os
import subprocess
import sys

#: More writes than may be open, to a child that does not read.
WRITES = 4200


def test_the_end_of_the_input_is_noticed() -> None:
    """The server ends, and the child with it."""
    server = subprocess.Popen([sys.executable, "-m", "execsrv"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin and server.stdout
    start = {"processId": "p", "argv": ["sleep", "1000"], "cwd": "/", "env": {"PATH": os.environ["PATH"]}, "tty": False}
    write = {"processId": "p", "chunk": "A" * 200_000}
    messages = [
        {"id": 1, "method": "initialize", "params": {"clientName": "test"}},
        {"method": "initialized"},
        {"id": 2, "method": "process/start", "params": {**start, "pipeStdin": True}},
        {"id": 3, "method": "process/write", "params": write},
        *({"id": n, "method": "process/write", "params": {**write, "chunk": "AAAA"}} for n in range(4, WRITES)),
    ]
    text = "".join(json.dumps(message) + "\n" for message in messages)
    output, _ = server.communicate(text.encode(), timeout=30)
    assert server.returncode == 0
    assert b'"signal":"SIGKILL"' in output
