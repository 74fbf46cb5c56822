"""Files that a client has open, by ids of its own, to read and write them block by block.

The methods of a connection's handles run on one thread at a time. Only the end may come in between, from another
one: so a handle that is worked on is out of the table, and whoever comes last closes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import ClassVar, TypeAlias, TypeVar

from execsrv.errors import InvalidRequest
from execsrv.server.files.draft import draft_content, opened_draft
from execsrv.server.files.read_file import opened_regular
from execsrv.server.files.write_file import write_through
from execsrv.server.processes.faults import limit_exceeded

#: Handles of one connection; each costs a descriptor, and two when its path is long.
MAX_HANDLES = 128


class BlockReader:
    """A regular file that is read as it is at the time; links are followed."""

    mode: ClassVar = "read"

    def __init__(self, path: bytes) -> None:
        """Open the file. Raises InvalidRequest for any other kind of file, else OSError."""
        self.path = path
        self._opened = ExitStack()
        self._fd = self._opened.enter_context(opened_regular(path))

    def read(self, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset`` on; fewer only when the file ends before. Raises OSError."""
        pieces, end = [], offset + length
        while offset < end and (piece := os.pread(self._fd, end - offset, offset)):
            pieces.append(piece)
            offset += len(piece)
        return b"".join(pieces)

    def close(self) -> None:
        """Close the file."""
        self._opened.close()


class BlockWriter:
    """A draft of the file at a path: nobody sees it before ``commit``, and without that it vanishes."""

    mode: ClassVar = "write"

    def __init__(self, path: bytes) -> None:
        """Open an empty draft. Raises InvalidRequest for what takes no content, else OSError."""
        self.path = path
        self._opened = ExitStack()
        self._draft = self._opened.enter_context(opened_draft(path))
        self._fault: OSError | None = None

    def write(self, offset: int, data: bytes) -> None:
        """Write ``data`` at ``offset``; what is never written before the end is zeros. Raises OSError."""
        rest = memoryview(data)
        try:
            while rest:
                written = os.pwrite(self._draft, rest, offset)
                rest, offset = rest[written:], offset + written
        except OSError as error:
            self._fault = error
            raise

    def commit(self) -> None:
        """Put the draft in its place, as ``write_through`` does and with the same errors.

        Raises the OSError of a ``write`` that failed: a file that lacks a block is not whole.
        """
        if self._fault:
            raise self._fault
        write_through(self.path, draft_content(self._draft))

    def close(self) -> None:
        """Close the draft; without a commit it is gone."""
        self._opened.close()


Handle: TypeAlias = BlockReader | BlockWriter
H = TypeVar("H", BlockReader, BlockWriter)


class Handles:
    """The table of one connection."""

    def __init__(self) -> None:
        self._open: dict[str, Handle] = {}
        self._ended = False

    def check_free(self, handle_id: str) -> None:
        """Raise InvalidRequest when the id is in use, or too many are."""
        if handle_id in self._open:
            raise InvalidRequest(f"handle {handle_id} already exists", kind="duplicateHandle")
        if len(self._open) >= MAX_HANDLES:
            raise limit_exceeded(MAX_HANDLES, "file handles of a connection")

    def add(self, handle_id: str, handle: Handle) -> None:
        """Own ``handle`` from now on, under an id that is free; after the end it is closed at once."""
        self._open[handle_id] = handle
        if self._ended:
            self.close_all()

    @contextmanager
    def taken(self, handle_id: str, kind: type[H]) -> Iterator[H]:
        """The handle of an id, to be worked on in the block. Raises InvalidRequest: unknown, or of another kind."""
        handle = self.remove(handle_id)
        try:
            if not isinstance(handle, kind):
                raise InvalidRequest(f"handle {handle_id} is not open to {kind.mode}", kind="invalidInput")
            yield handle
        finally:
            self.add(handle_id, handle)

    def remove(self, handle_id: str) -> Handle:
        """Free an id; its handle is the caller's. Raises InvalidRequest when there is none."""
        handle = self._open.pop(handle_id, None)
        if handle is None:
            raise InvalidRequest(f"unknown handle id {handle_id}", kind="unknownHandle")
        return handle

    def end(self) -> bool:
        """Keep nothing open from now on; True when ``close_all`` has something to do. Does not wait."""
        self._ended = True
        return bool(self._open)

    def close_all(self) -> None:
        """Close every handle that is not worked on; drafts are discarded. Never raises."""
        while self._open:
            with suppress(KeyError, OSError):  # somebody else took the last one; a close that fails has closed
                self._open.popitem()[1].close()
