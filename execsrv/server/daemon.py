"""The program: serves one transport, or a websocket listener, until its input ends or a signal stops it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Collection

import gevent
from gevent.event import Event

from execsrv import schemas
from execsrv.config import ExecServerConfig
from execsrv.server.connection import Connection
from execsrv.server.processes.nofile import raise_own_limit
from execsrv.server.reaper import adopts_orphans, start_reaping
from execsrv.server.workers import Workers
from execsrv.transports import Transport
from execsrv.transports.stdio import StdioTransport, claim_stdio, seal_descriptors

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

#: The longest that the end of all connections may take when the server stops, beside the grace of the processes.
STOP_TIMEOUT_S = 6.0


def serve_stdio(config: ExecServerConfig) -> None:
    """Serve the peer on stdin and stdout; return when stdin has ended or a signal came."""
    _prepare()
    daemon = Daemon(config)
    transport = StdioTransport(*claim_stdio(), config.max_message_bytes)
    serving = gevent.spawn(daemon.serve, transport)
    serving.link(lambda _: daemon.stopped.set())
    daemon.stopped.wait()
    daemon.end()


def serve_websocket(
    host: str, port: int, config: ExecServerConfig, allow_origins: Collection[str], allow_hosts: Collection[str]
) -> None:
    """Listen until a signal comes. Raises OSError when the address can't be bound."""
    from execsrv.transports.listener import WebSocketListener

    _prepare()
    daemon = Daemon(config)
    listener = WebSocketListener(host, port, daemon.serve, config, allow_origins, allow_hosts)
    listener.start()
    print(f"execsrv listening on {listener.url}", file=sys.stderr, flush=True)
    daemon.stopped.wait()
    listener.stop()
    daemon.end()


class Daemon:
    """The connections of a server. ``stopped`` is set when it shall end."""

    def __init__(self, config: ExecServerConfig) -> None:
        self.stopped = Event()
        self._config = config
        self._workers = Workers()
        self._connections: set[Connection] = set()
        for number in STOP_SIGNALS:
            gevent.signal_handler(number, self.stopped.set)
        if adopts_orphans():
            start_reaping()

    def serve(self, transport: Transport) -> None:
        """Serve one peer until its connection is over."""
        connection = Connection(transport, self._config, self._workers)
        self._connections.add(connection)
        try:
            connection.serve()
        finally:
            self._connections.discard(connection)

    def end(self) -> None:
        """End all connections at the same time, their processes with them."""
        ending = [gevent.spawn(connection.end, "shutdown") for connection in self._connections]
        gevent.joinall(ending, timeout=STOP_TIMEOUT_S + self._config.shutdown_grace_ms / 1000)


def _prepare() -> None:
    """Before anything is served: keep inherited descriptors from children, allow many of our own, read our files."""
    seal_descriptors()
    raise_own_limit()
    schemas.load_all()
    gevent.config.track_greenlet_tree = False  # or each of the many greenlets keeps a copy of the stack it came from
