"""execsrv under gunicorn, on as many cores as it has workers.

    gunicorn -k execsrv.gunicorn.Worker -w 2 -b 127.0.0.1:8080 execsrv.gunicorn:application

gunicorn binds the address, starts the workers and replaces those that end; each worker is a server of its own, with
its own connections and processes. Our options come from the environment (see ``options``), which gunicorn's own
setting ``raw_env`` adds to.
"""

from __future__ import annotations

import logging
import math
import os
import signal
from collections.abc import Iterable
from functools import partial
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import gevent
from gevent import socket
from gevent.event import Event
from geventwebsocket.gunicorn.workers import GeventWebSocketWorker
from gunicorn.arbiter import Arbiter
from gunicorn.errors import HaltServer

from execsrv.options import OptionError, options_of
from execsrv.server.daemon import Daemon, longest_end, prepare
from execsrv.server.listen import WebSocketAddress
from execsrv.transports import Transport
from execsrv.transports.handshake import Allowed
from execsrv.transports.listener import WebSocketServer

#: Seconds between two signs of life for the master, as with gunicorn's own gevent workers.
BEAT_S = 1.0

#: Seconds that a worker may take to end beside the end of its connections.
SPARE_S = 3.0

#: Where the application finds what serves a transport, in the WSGI environment.
_SERVE = "execsrv.serve"

#: What ends a worker. From before its fork until it has handlers of its own they are held back: the master's own
#: would swallow them, and the master sends them only once.
_ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGABRT, signal.SIGHUP)
os.register_at_fork(after_in_parent=partial(signal.pthread_sigmask, signal.SIG_UNBLOCK, _ENDINGS))

_ADVICE = b"execsrv needs its own class of workers: gunicorn -k execsrv.gunicorn.Worker\n"


def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Serve the websocket that a Worker has let in, until its end; under other workers do nothing but say so."""
    if _SERVE in environ:
        environ[_SERVE](environ["wsgi.websocket"])
        return []
    start_response("500 Internal Server Error", [("Content-Type", "text/plain"), ("Content-Length", str(len(_ADVICE)))])
    return [_ADVICE]


class Worker(GeventWebSocketWorker):  # type: ignore[misc]  # neither gunicorn nor gevent-websocket has types
    """A process that accepts websockets by our rules, until it shall end; all its connections end with it.

    Nothing is monkey-patched: all that runs here is written for gevent, and gevent's own way to start processes would
    reap ours.
    """

    sockets: list[Any]  # gunicorn's at first, then gevent's

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """In the master, before each fork. Raises HaltServer, which ends it: the options or the address won't do."""
        super().__init__(*args, **kwargs)
        try:
            self._options = options_of(os.environ)
        except OptionError as error:
            raise _refusal(str(error)) from None
        self._check_addresses()
        needed = math.ceil(longest_end(self._options.config) + SPARE_S)
        if self.cfg.graceful_timeout < needed:  # else the master would kill workers that still end processes
            self.cfg.set("graceful_timeout", needed)
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)

    def patch(self) -> None:
        """Make the listening sockets gevent's."""
        self.sockets = [socket.socket(fileno=listening.sock.detach()) for listening in self.sockets]

    def init_signals(self) -> None:
        """As gunicorn wants it, but a terminal that hangs up must not end us before our processes have ended."""
        self._woken = Event()
        self._in_haste = False
        super().init_signals()
        signal.signal(signal.SIGHUP, self.handle_exit)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """End, and leave the processes the time that they are configured to have."""
        self.alive = False
        self._woken.set()

    def handle_quit(self, sig: int, frame: Any) -> None:
        """End, and kill the processes at once: the master may allow no more than 2 seconds."""
        self.cfg.worker_int(self)
        self._in_haste = True
        self.handle_exit(sig, frame)

    def handle_abort(self, sig: int, frame: Any) -> None:
        """The master has seen no sign of life for long, and kills us unless it sees one soon."""
        self.cfg.worker_abort(self)
        self._in_haste = True
        self.handle_exit(sig, frame)

    def notify(self) -> None:
        """Give a sign of life, or end if the master is gone."""
        self.tmp.notify()
        if self.alive and self.ppid != os.getppid():
            self.log.info("the master is gone")
            self.alive = False

    def run(self) -> None:
        """Serve until the worker shall end; then end all connections."""
        self._log_as_gunicorn_does()
        prepare()
        self._daemon = Daemon(self._options.config)
        servers = [self._server(listening) for listening in self.sockets]
        for server in servers:
            server.start()
        while self.alive:
            self._rest()
        for server in servers:
            server.stop()
        self._end_connections()

    def _log_as_gunicorn_does(self) -> None:
        """To the same places and from the same level on."""
        ours, gunicorns = logging.getLogger("execsrv"), self.log.error_log
        ours.handlers, ours.propagate = gunicorns.handlers, False
        ours.setLevel(gunicorns.level)

    def _check_addresses(self) -> None:
        """Raise HaltServer unless we may listen where gunicorn does."""
        if self.cfg.is_ssl:
            raise _refusal("execsrv knows no TLS: let something in front of it do that")
        if self.cfg.reuse_port:  # then there are no sockets yet that could be looked at
            raise _refusal("reuse_port is refused: connections would wait for one worker while another has room")
        for listening in self.sockets:
            if listening.sock.family not in (socket.AF_INET, socket.AF_INET6):
                raise _refusal("execsrv listens on TCP only")
            self._check_reach(WebSocketAddress(*listening.sock.getsockname()[:2]))

    def _check_reach(self, address: WebSocketAddress) -> None:
        if address.is_loopback:
            return
        if not self._options.insecure_no_auth:
            raise _refusal(
                f"{address.host} is not a loopback address: anybody who reaches it could run commands here; "
                "EXECSRV_INSECURE_NO_AUTH=1 allows that"
            )
        self.log.warning("anybody who reaches %s can run commands here", address.host)

    def _server(self, listening: socket.socket) -> WebSocketServer:
        """Like any worker of gunicorn it accepts nobody while it is full, so that the others can."""
        options = self._options
        return WebSocketServer(
            listening,
            self.wsgi,
            options.config,
            Allowed.of(options.allow_origins, options.allow_hosts),
            max_open=min(options.config.max_connections, self.worker_connections),
            environ={_SERVE: self._serve, "wsgi.multiprocess": True},
        )

    def _serve(self, transport: Transport) -> None:
        try:
            self._daemon.serve(transport)
        finally:
            self.nr += 1
            if self.nr >= self.max_requests:
                self.alive = False
                self._woken.set()

    def _end_connections(self) -> None:
        ending = gevent.spawn(self._daemon.end, "shutdown")
        ending.link(lambda _: self._woken.set())
        while not ending.ready():
            if self._in_haste:
                self._in_haste = False
                gevent.spawn(self._daemon.end, "connectionClosed")
            self._rest()

    def _rest(self) -> None:
        """Wait for the next beat, or until something has happened."""
        self.notify()
        self._woken.wait(BEAT_S)
        self._woken.clear()


def _refusal(words: str) -> HaltServer:
    return HaltServer(words, Arbiter.WORKER_BOOT_ERROR)
