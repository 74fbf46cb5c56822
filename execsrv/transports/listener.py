"""Accepts websocket connections: HTTP and the handshake by gevent and gevent-websocket, the rules by ``handshake``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from io import BufferedIOBase
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import gevent
from gevent import socket
from gevent.pool import Pool
from gevent.pywsgi import LoggingLogAdapter, WSGIServer
from geventwebsocket.handler import WebSocketHandler

from execsrv.config import ExecServerConfig
from execsrv.transports import Transport
from execsrv.transports.handshake import Allowed, Refusal, check_request
from execsrv.transports.websocket import PING_INTERVAL, WebSocketTransport

log = logging.getLogger(__name__)

#: Connections that the system may hold for us until they are accepted.
BACKLOG = 512

#: Connections besides the websockets that may be in their handshake.
MAX_HANDSHAKES = 128

#: Longest wait for a request, in seconds.
HANDSHAKE_SECONDS = 10.0

#: Longest head of a request, in bytes.
MAX_HEAD_BYTES = 32 * 1024

#: Seconds until accepting is tried again after it failed, for instance for want of descriptors.
ACCEPT_RETRY_SECONDS = 0.1


class WebSocketServer(WSGIServer):
    """Accepts connections on a listening socket and calls a WSGI application in a greenlet for each websocket.

    The application finds the transport as ``environ["wsgi.websocket"]``, besides what ``environ`` holds here, and
    returns when the connection is over. Who may connect is for ``allowed`` and ``config`` to say; there are never more
    than ``max_open`` connections, those in their handshake too: then no further ones are accepted.
    Belongs to the hub of the thread that makes it, and owns the socket.
    """

    def __init__(
        self,
        listening: socket.socket,
        application: WSGIApplication,
        config: ExecServerConfig,
        allowed: Allowed,
        max_open: int,
        *,
        environ: Mapping[str, Any] | None = None,
        ping_interval: float = PING_INTERVAL,
        handshake_seconds: float = HANDSHAKE_SECONDS,
    ) -> None:
        self.config = config
        self.allowed = allowed
        self.ping_interval = ping_interval
        self.handshake_seconds = handshake_seconds
        self.connections = 0
        self.logger = log  # where gevent-websocket writes
        quiet = LoggingLogAdapter(log, logging.DEBUG)
        super().__init__(
            listening,
            application,
            spawn=Pool(max_open),
            log=quiet,
            error_log=quiet,
            handler_class=_Handler,
            environ={"SERVER_NAME": listening.getsockname()[0], **(environ or {})},  # else the DNS would be asked
        )

    def stop(self, timeout: float | None = None) -> None:
        """Stop accepting; twice is harmless. Connections are left to their owners."""
        self.close()

    def do_read(self) -> Any:
        """Accept a connection; on an error that may pass (accept(2)) pause, quietly."""
        try:
            return super().do_read()
        except OSError as error:
            if self.is_fatal_error(error):
                raise
            log.warning("cannot accept a connection: %s", error)
            self.stop_accepting()
            gevent.spawn_later(ACCEPT_RETRY_SECONDS, self._accept_again)
            return None

    def _accept_again(self) -> None:
        if self.started:
            self.start_accepting()


class WebSocketListener(WebSocketServer):
    """Listens on an address and calls ``serve(transport)`` in a greenlet for each websocket.

    ``serve`` returns when the connection is over. ``allow_origins`` and ``allow_hosts`` are the web pages and the
    host names that are let in (see ``handshake``). Port 0 picks one. Raises OSError when the address can't be bound.
    """

    def __init__(
        self,
        host: str,
        port: int,
        serve: Callable[[Transport], None],
        config: ExecServerConfig,
        allow_origins: Collection[str] = (),
        allow_hosts: Collection[str] = (),
        *,
        ping_interval: float = PING_INTERVAL,
        handshake_seconds: float = HANDSHAKE_SECONDS,
    ) -> None:
        def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            serve(environ["wsgi.websocket"])
            return []

        super().__init__(
            _bind(host, port),
            application,
            config,
            Allowed.of(allow_origins, allow_hosts),
            max_open=config.max_connections + MAX_HANDSHAKES,
            ping_interval=ping_interval,
            handshake_seconds=handshake_seconds,
        )

    @property
    def url(self) -> str:
        """Where it listens, the port bound: ``ws://127.0.0.1:43211`` or ``ws://[::1]:43211``."""
        host = f"[{self.server_host}]" if self.family == socket.AF_INET6 else self.server_host
        return f"ws://{host}:{self.server_port}"


class _Handler(WebSocketHandler):  # type: ignore[misc]  # gevent-websocket has no types
    """One accepted connection: reads one request, then refuses it or serves a websocket."""

    server: WebSocketServer
    websocket: Any  # gevent-websocket's at first, then ours

    def handle(self) -> None:
        """Handle the connection; what goes wrong before the upgrade is the peer's business and leaves no trace."""
        self._deadline = gevent.Timeout(self.server.handshake_seconds)
        try:
            with self._deadline:
                super().handle()
        except (OSError, gevent.Timeout) as error:
            log.debug("%s: %s", self.client_address, error)

    def MessageClass(self, rfile: BufferedIOBase, *args: object) -> Any:
        """Parse the header lines, which are read here."""
        return super().MessageClass(_BoundedLines(rfile), *args)

    def read_request(self, raw_requestline: str) -> bool:
        """Parse a request; raises Refusal for all but the handshake of a websocket for which there is room."""
        super().read_request(raw_requestline)
        check_request(self.command, self.request_version, self.headers, self.server.allowed)
        if self.server.connections >= self.server.config.max_connections or not self.server.started:
            raise Refusal("503 Service Unavailable", "there is no room for another connection")
        return True

    def _handle_client_error(self, ex: Exception) -> tuple[str, bytes]:
        """What ``read_request`` raised, as the status and the bytes of an answer; the connection is then closed."""
        refusal = ex if isinstance(ex, Refusal) else Refusal("400 Bad Request", "this is not an HTTP request")
        log.debug("%s: refused: %r", self.client_address, ex)
        return refusal.status, refusal.response()

    def run_application(self) -> None:
        """Upgrade; the request has been checked."""
        self._deadline.close()
        self.server.connections += 1
        try:
            super().run_application()
        except OSError as error:  # the peer left before it was served
            self.close_connection = True
            log.debug("%s: %s", self.client_address, error)
        finally:
            self.server.connections -= 1

    def run_websocket(self) -> None:
        """Serve the connection, with our transport in place of gevent-websocket's."""
        self.websocket.closed = True  # else it would write a close frame when it is dropped
        transport = WebSocketTransport(self, self.server.config.max_message_bytes, self.server.ping_interval)
        self.websocket = self.environ["wsgi.websocket"] = transport
        try:
            super().run_websocket()
        except Exception:  # the border of a connection: a bug met in one must not reach the others
            log.exception("a connection ended by an internal error")
        finally:
            transport.linger()

    def log_request(self) -> None:
        """Log who came and what for, without the request's path, which may hold secrets."""
        log.debug("%s: %s: %s", self.client_address, self.command, self.status)


class _BoundedLines:
    """A file to read lines from, MAX_HEAD_BYTES in all. Raises ValueError above that."""

    def __init__(self, file: BufferedIOBase) -> None:
        self._file = file
        self._left = MAX_HEAD_BYTES

    def readline(self, limit: int = -1) -> bytes:
        line = self._file.readline(min(limit, self._left + 1) if limit >= 0 else self._left + 1)
        self._left -= len(line)
        if self._left < 0:
            raise ValueError("the head of the request is too long")
        return line


def _bind(host: str, port: int) -> socket.socket:
    """A listening socket on an IPv4 or IPv6 address (on IPv6, it takes no IPv4)."""
    is_v6 = ":" in host
    listening = socket.socket(socket.AF_INET6 if is_v6 else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_v6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening
