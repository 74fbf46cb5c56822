"""The input of a process: writes go out in order, whole, and hold nobody up but their callers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import gevent
from gevent.event import AsyncResult

from execsrv.errors import InvalidRequest
from execsrv.server.processes.descriptor import Descriptor, DescriptorClosed
from execsrv.server.processes.faults import limit_exceeded, stdin_closed

#: A further write is refused while this much waits for the child.
MAX_WAITING_BYTES = 8 * 1024 * 1024

#: What leaves no partial line behind in a terminal: newline, return, Ctrl-C and Ctrl-D (termios(3)).
LINE_ENDS = b"\n\r\x03\x04"


class Stdin:
    """A queue of writes in front of a pipe or a terminal, which comes when the process has started.

    ``open`` says whether there is an input at all. The descriptor stays the process's own.
    """

    def __init__(self, process_id: str, open: bool) -> None:
        self._process_id = process_id
        self._closed = not open
        self._finishing = False
        self._at_line_start = True
        self._descriptor: Descriptor | None = None
        self._end_of_file: Callable[[], bytes] | None = None
        self._waiting: deque[tuple[memoryview, AsyncResult[None]]] = deque()
        self._waiting_bytes = 0
        self._draining = False

    def write(self, data: bytes) -> None:
        """Queue ``data`` and wait until the child's pipe or terminal has taken it.

        Raises InvalidRequest when the input is closed, before or meanwhile, and when too much waits already.
        """
        self.check_open()
        if self._waiting_bytes >= MAX_WAITING_BYTES:
            raise limit_exceeded(MAX_WAITING_BYTES, f"bytes of input wait for process {self._process_id}")
        rest = memoryview(data)
        self._at_line_start = data[-1] in LINE_ENDS if data else self._at_line_start
        if self._descriptor and not self._waiting:
            rest = self._write_at_once(self._descriptor, rest)
            if not rest:
                return
        self._queue(rest).get()

    def check_open(self) -> None:
        """Raise InvalidRequest when nothing can be written."""
        if self._closed or self._finishing:
            raise stdin_closed(self._process_id)

    def attach(self, descriptor: Descriptor, end_of_file: Callable[[], bytes] | None = None) -> None:
        """Start to write what waits to ``descriptor``.

        end_of_file: gives the character that ends a terminal's input at the start of a line; elsewhere it only passes
        the line on, so that it takes a second one. None for a pipe, which is closed.
        """
        self._descriptor = descriptor
        self._end_of_file = end_of_file
        self._start_draining()

    def finish(self) -> None:
        """Refuse further writes and end the input behind the waiting ones; twice is harmless."""
        self._finishing = True
        self._start_draining()

    def close(self, error: InvalidRequest | None = None) -> None:
        """Refuse further writes and answer the waiting ones, with ``error`` or as closed; twice is harmless."""
        self._closed = True
        self._waiting_bytes = 0
        while self._waiting:
            self._waiting.popleft()[1].set_exception(error or stdin_closed(self._process_id))

    def _write_at_once(self, descriptor: Descriptor, data: memoryview) -> memoryview:
        """Write what fits now; return the rest."""
        try:
            return data[descriptor.write(data) :]
        except (OSError, DescriptorClosed):
            self.close()
            raise stdin_closed(self._process_id) from None

    def _queue(self, data: memoryview) -> AsyncResult[None]:
        taken: AsyncResult[None] = AsyncResult()
        self._waiting.append((data, taken))
        self._waiting_bytes += len(data)
        self._start_draining()
        return taken

    def _start_draining(self) -> None:
        has_work = (self._waiting or self._finishing) and not self._closed
        if self._descriptor and has_work and not self._draining:
            self._draining = True
            gevent.spawn(self._drain, self._descriptor)

    def _drain(self, descriptor: Descriptor) -> None:
        try:
            while self._waiting:
                self._write_first(descriptor)
            if self._finishing and not self._closed:
                self._end(descriptor)
        except (OSError, DescriptorClosed):  # nobody reads the other end any more
            self.close()
        finally:
            self._draining = False

    def _end(self, descriptor: Descriptor) -> None:
        if self._end_of_file is None:
            descriptor.close()
        else:
            self._queue(memoryview(self._end_of_file() * (1 if self._at_line_start else 2)))
            self._write_first(descriptor)
        self.close()

    def _write_first(self, descriptor: Descriptor) -> None:
        data, taken = self._waiting[0]
        while data and not taken.ready():
            written = descriptor.write(data)
            self._waiting_bytes -= written
            data = data[written:]
            if data:
                descriptor.wait_writable()
        if not taken.ready():
            self._waiting.popleft()
            taken.set()
