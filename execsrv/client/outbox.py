"""Messages on their way to the server, sent by a thread of their own, so that who reads never has to write."""

from __future__ import annotations

import logging
import threading
from collections import deque

from execsrv.client.deadline import Deadline
from execsrv.client.stdio_stream import MessageStream
from execsrv.config import MIB

logger = logging.getLogger(__name__)

#: Bytes of requests that wait to be sent before the next request has to wait; one of any size fits in below.
QUEUE_BYTES = 1 * MIB

#: How long the server's own end is waited for after a failed write, in seconds: it may still say why.
FAREWELL_SECONDS = 2.0


class Outbox:
    """A queue in front of ``stream``."""

    def __init__(self, stream: MessageStream) -> None:
        self._stream = stream
        self._queue: deque[bytes] = deque()
        self._bytes = 0
        self._finishing = False
        self._changed = threading.Condition()
        self._server_ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="execsrv-writer", daemon=True)
        self._thread.start()

    def put(self, message: bytes, deadline: Deadline) -> bool:
        """Queue ``message`` when there is room; False if there is none in time. After ``finish`` it is dropped."""
        with self._changed:
            self._changed.wait_for(lambda: self._bytes < QUEUE_BYTES or self._finishing, deadline.remaining())
            if self._bytes >= QUEUE_BYTES and not self._finishing:
                return False
            self._append(message)
            return True

    def post(self, message: bytes) -> None:
        """Queue ``message`` without waiting: for notifications, whose number is bounded by what they answer."""
        with self._changed:
            self._append(message)

    def poke(self) -> None:
        """Let out what the stream itself has to say."""
        self.post(b"")

    def finish(self) -> None:
        """Drop what is queued, end the stream's writing direction, and then the thread."""
        with self._changed:
            self._finishing = True
            self._queue.clear()
            self._changed.notify_all()

    def join(self, timeout: float | None = None) -> None:
        """The server has ended: wait up to ``timeout`` seconds for the thread to do the same."""
        self._server_ended.set()
        self._thread.join(timeout)

    def _append(self, message: bytes) -> None:
        if not self._finishing:
            self._queue.append(message)
            self._bytes += len(message)
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            while (message := self._next()) is not None:
                self._stream.send(message)
            self._stream.finish()
        except OSError as error:
            logger.debug("sending failed: %s", error)
            self._server_ended.wait(FAREWELL_SECONDS)
            self._stream.abort()

    def _next(self) -> bytes | None:
        """The next message to send; None when there will be none."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._finishing)
            if not self._queue:
                return None
            message = self._queue.popleft()
            self._bytes -= len(message)
            self._changed.notify_all()
            return message
