"""Input on its way to a process that may not read it for a long time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from execsrv.session.unified_exec.errors import ConnectionLost, WriteFailed
from execsrv.session.unified_exec.request import check_room


class InputQueue:
    """Gives input to ``write``, piece by piece in order, on a thread that is there while some waits. For any thread.

    write: may wait, and raise WriteFailed and ConnectionLost; nothing is written after that.
    """

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._changed = threading.Condition()
        self._pieces: deque[bytes] = deque()
        self._bytes = 0
        self._active = False
        self._failure: WriteFailed | ConnectionLost | None = None

    def put(self, data: bytes, timeout: float) -> None:
        """Append ``data`` and wait up to ``timeout`` seconds until all is written. What is not is written later.

        Raises what ``write`` has raised, and WriteFailed when too much waits already.
        """
        with self._changed:
            check_room(self._bytes + len(data))
            self._pieces.append(data)
            self._bytes += len(data)
            if not self._active:
                threading.Thread(target=self._run, name="execsrv-input", daemon=True).start()
                self._active = True  # only now, since there may be no thread left; it can't look before we are through
            self._changed.wait_for(lambda: not self._active, timeout)
            if self._failure:
                raise type(self._failure)(self._failure.reason) from self._failure

    def _run(self) -> None:
        while (piece := self._next()) is not None:
            try:
                if not self._failure:
                    self._write(piece)
            except (WriteFailed, ConnectionLost) as error:
                self._failure = error
            with self._changed:
                self._bytes -= len(piece)

    def _next(self) -> bytes | None:
        with self._changed:
            if self._pieces:
                return self._pieces.popleft()
            self._active = False
            self._changed.notify_all()
            return None
