"""What gunicorn's workers give: two clients at work, with one worker for both and with one for each.

    python tests/benchmarks/workers.py [--rounds N]

The clients only count what comes, since they share the cores with the workers.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CLIENTS = 2
MIB = 1024 * 1024

#: What each client's process writes, and how many processes it starts.
FLOOD_BYTES = 128 * MIB
STARTS = 1600

#: Processes of a client that run at the same time.
BURST = 32

#: Longest wait for anything, in seconds.
PATIENCE = 120.0

CLOSED = b'"process/closed"'

UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


class Client:
    """A websocket connection that looks for words in what comes and throws it away."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self._buffer = bytearray(MIB)
        self._started = 0
        self._socket.sendall(UPGRADE)
        self.wait_for(b"\r\n\r\n")
        self.send({"id": 1, "method": "initialize", "params": {"clientName": "benchmark"}})
        self.wait_for(b'"protocolVersion"')
        self.send({"method": "initialized"})

    def send(self, *messages: dict[str, Any]) -> None:
        """Send messages."""
        self._socket.sendall(b"".join(frame(json.dumps(message).encode()) for message in messages))

    def wait_for(self, word: bytes, times: int = 1) -> None:
        """Read until ``word`` has come so often."""
        rest = b""
        while times > 0:
            size = self._socket.recv_into(self._buffer)
            if not size:
                raise EOFError("the server has gone")
            data = rest + memoryview(self._buffer)[:size]
            times -= data.count(word)
            rest = data[-len(word) + 1 :]

    def start(self, *argv: str, times: int = 1) -> None:
        """Start so many processes."""
        params = {"argv": argv, "cwd": "/", "env": {"PATH": os.environ["PATH"]}, "tty": False}
        ids = [str(self._started + number) for number in range(times)]
        self._started += times
        self.send(*({"id": id, "method": "process/start", "params": {**params, "processId": id}} for id in ids))

    def flood(self) -> None:
        """Take all that one process writes."""
        self.start("head", "-c", str(FLOOD_BYTES), "/dev/zero")
        self.wait_for(CLOSED)

    def burst(self) -> None:
        """Start processes, a few at a time, and see them closed."""
        for _ in range(STARTS // BURST):
            self.start("true", times=BURST)
            self.wait_for(CLOSED, times=BURST)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


def frame(payload: bytes) -> bytes:
    """A text frame, masked with zeros (RFC 6455 section 5.3 leaves the choice to the client)."""
    size = len(payload)
    length = bytes([0x80 | size]) if size < 126 else bytes([0xFE]) + size.to_bytes(2, "big")
    return b"\x81" + length + bytes(4) + payload


@contextmanager
def gunicorn(workers: int) -> Iterator[int]:
    """gunicorn with so many workers, which share the clients evenly; its port."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "gunicorn.conf.py")
        config.write_text("control_socket_disable = True\n")
        command = [sys.executable, "-m", "gunicorn", "-c", str(config), "-k", "execsrv.gunicorn.Worker"]
        command += ["-w", str(workers), "-b", "127.0.0.1:0", "execsrv.gunicorn:application"]
        variables = {**os.environ, "EXECSRV_MAX_CONNECTIONS": str(CLIENTS // workers)}
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=variables) as program:
            assert program.stderr
            try:
                ports = (re.search(r"Listening at: http://127.0.0.1:(\d+)", line) for line in program.stderr)
                yield next(int(port[1]) for port in ports if port)
            finally:
                program.terminate()


def seconds(clients: list[Client], work: Callable[[Client], None]) -> float:
    """How long it takes until all clients have done their work, side by side."""
    threads = [threading.Thread(target=work, args=(client,)) for client in clients]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - begin


def measure(workers: int) -> tuple[float, float]:
    """MB/s through pipes, and starts per second, of all clients together."""
    with gunicorn(workers) as port:
        clients = [Client(port) for _ in range(CLIENTS)]
        for client in clients:
            client.start("true")
            client.wait_for(CLOSED)
        rate = CLIENTS * FLOOD_BYTES / 1e6 / seconds(clients, Client.flood)
        starts = CLIENTS * STARTS / seconds(clients, Client.burst)
        for client in clients:
            client.close()
        return rate, starts


def main() -> None:
    """Measure both in turn, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    found: dict[int, list[tuple[float, float]]] = {1: [], CLIENTS: []}
    for _ in range(rounds):
        for workers, figures in found.items():
            figures.append(measure(workers))
    print(f"{CLIENTS} clients on {os.cpu_count()} cores, medians of {rounds} rounds")
    print("| workers | pipes, MB/s | starts/s |\n| --- | --- | --- |")
    for workers, figures in found.items():
        rate, starts = (statistics.median(column) for column in zip(*figures))
        print(f"| {workers} | {rate:,.0f} | {starts:,.0f} |")


if __name__ == "__main__":
    main()
