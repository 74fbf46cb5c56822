"""The program: serves one transport, or a websocket listener, until its input ends or a signal stops it.

What other programs need to serve is here too: ``prepare`` once, and a ``Daemon``.
"""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Collection

import gevent
from gevent.event import Event

from execsrv import schemas
from execsrv.config import ExecServerConfig
from execsrv.protocol.common import ExitReason
from execsrv.server.connection import Connection
from execsrv.server.processes.nofile import raise_own_limit
from execsrv.server.reaper import adopts_orphans, start_reaping
from execsrv.server.workers import Workers
from execsrv.transports import Transport
from execsrv.transports.stdio import StdioTransport, claim_stdio, seal_descriptors

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

#: The longest that the end of all connections may take, beside the grace of the processes.
END_TIMEOUT_S = 6.0


def serve_stdio(config: ExecServerConfig) -> None:
    """Serve the peer on stdin and stdout; return when stdin has ended or a signal came."""
    prepare()
    stopped = _stop_signal()
    daemon = Daemon(config)
    transport = StdioTransport(*claim_stdio(), config.max_message_bytes)
    serving = gevent.spawn(daemon.serve, transport)
    serving.link(lambda _: stopped.set())
    stopped.wait()
    daemon.end("shutdown")


def serve_websocket(
    host: str, port: int, config: ExecServerConfig, allow_origins: Collection[str], allow_hosts: Collection[str]
) -> None:
    """Listen until a signal comes. Raises OSError when the address can't be bound."""
    from execsrv.transports.listener import WebSocketListener

    prepare()
    stopped = _stop_signal()
    daemon = Daemon(config)
    listener = WebSocketListener(host, port, daemon.serve, config, allow_origins, allow_hosts)
    listener.start()
    print(f"execsrv listening on {listener.url}", file=sys.stderr, flush=True)
    stopped.wait()
    listener.stop()
    daemon.end("shutdown")


class Daemon:
    """The connections of a server. Belongs to the hub of the thread that makes it."""

    def __init__(self, config: ExecServerConfig) -> None:
        self._config = config
        self._workers = Workers()
        self._connections: set[Connection] = set()

    def serve(self, transport: Transport) -> None:
        """Serve one peer until its connection is over."""
        connection = Connection(transport, self._config, self._workers)
        self._connections.add(connection)
        try:
            connection.serve()
        finally:
            self._connections.discard(connection)

    def end(self, reason: ExitReason) -> None:
        """End all connections at the same time, their processes with them; see ``longest_end``.

        With another reason than ``shutdown``, also while that goes on, the processes have no time left.
        """
        ending = [gevent.spawn(connection.end, reason) for connection in self._connections]
        gevent.joinall(ending, timeout=longest_end(self._config))


def longest_end(config: ExecServerConfig) -> float:
    """The longest that ``Daemon.end`` takes, in seconds."""
    return END_TIMEOUT_S + config.shutdown_grace_ms / 1000


def prepare() -> None:
    """Before anything is served by this program, and after its last fork.

    Keeps inherited descriptors from children, allows many of our own, reads our files, lets the garbage collector leave
    alone what is there, and reaps orphans if it must.
    """
    seal_descriptors()
    raise_own_limit()
    schemas.load_all()
    gc.freeze()
    gevent.config.track_greenlet_tree = False  # or each of the many greenlets keeps a copy of the stack it came from
    if adopts_orphans():
        start_reaping()


def _stop_signal() -> Event:
    """Is set when a signal stops the program."""
    stopped = Event()
    for number in STOP_SIGNALS:
        gevent.signal_handler(number, stopped.set)
    return stopped
