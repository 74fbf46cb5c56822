"""File objects for the server's files, read and written block by block.

The collector of garbage runs anywhere, where nobody may wait for a server. So ``__del__``, by which the classes of
``io`` close, and so would commit, does nothing here: another thread tells the server to forget what was dropped.
"""

from __future__ import annotations

import contextlib
import io
import os
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast

from execsrv.client.errors import ExecServerError
from execsrv.client.file_errors import os_errors
from execsrv.client.lifetime import when_dropped
from execsrv.client.paths import AnyPath, wire_path
from execsrv.config import MIB
from execsrv.protocol.files import Metadata, ReadBlockResult
from execsrv.wire import encode_base64, from_wire

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

#: What one message reads or writes: the most that a server takes.
BLOCK_BYTES = 1 * MIB

Mode: TypeAlias = Literal["r", "rb", "w", "wb"]


class Caller(Protocol):
    """Whoever can call the server's methods."""

    def call(self, method: str, params: dict[str, Any], timeout: float | None = None) -> dict[str, Any]:
        """See ExecServerClient.call."""


def open_remote(client: Caller, path: AnyPath, mode: Mode, encoding: str) -> IO[Any]:
    """Open a file of the server. See FileSystem.open."""
    if mode not in ("r", "rb", "w", "wb"):
        raise ValueError(f"mode is 'r', 'rb', 'w' or 'wb', not {mode!r}")
    binary: _Reader | _Writer
    if mode.startswith("r"):
        binary = _Reader(_RawReader(BlockHandle(client, path, "read")), BLOCK_BYTES)
    else:
        binary = _Writer(_RawWriter(BlockHandle(client, path, "write")), BLOCK_BYTES)
    if "b" in mode:
        return binary
    return _Text(binary, encoding=encoding, newline=None if mode == "r" else "")


class BlockHandle:
    """A file that the server has open: one to read, or a new content that takes the place of the one at ``path``."""

    def __init__(self, client: Caller, path: AnyPath, mode: Literal["read", "write"]) -> None:
        self._client = client
        self._path = path
        self._id = os.urandom(6).hex()
        self._is_open = True
        try:
            self._call("fs/open", path=wire_path(path), mode=mode)
        except (ExecServerError, OSError):
            raise
        except BaseException:  # somebody interrupts us, but the server will open it
            self.abandon(timeout=0)
            raise

    def read(self, offset: int, length: int) -> ReadBlockResult:
        """Up to ``length`` bytes from ``offset`` on, and whether the file ends behind them."""
        return from_wire(ReadBlockResult, self._call("fs/readBlock", offset=offset, len=length))

    def write(self, offset: int, data: bytes) -> None:
        """Put ``data`` at ``offset``."""
        self._call("fs/writeBlock", offset=offset, chunk=encode_base64(data))

    def size(self) -> int:
        """The size of what is at the path now, in bytes."""
        return from_wire(Metadata, self._call("fs/getMetadata", path=wire_path(self._path))).size

    def close(self, commit: bool = False, timeout: float | None = None) -> None:
        """Close it; what was written takes its place with ``commit``, and else is gone. Twice is harmless."""
        if self._is_open:
            self._is_open = False
            self._call("fs/close", timeout, commit=commit)

    def abandon(self, timeout: float | None = None) -> None:
        """Close it, come what may: nobody wants to hear of it."""
        with contextlib.suppress(ExecServerError, OSError):
            self.close(timeout=timeout)

    def _call(self, method: str, timeout: float | None = None, **params: Any) -> dict[str, Any]:
        with os_errors(self._path):
            return self._client.call(method, {"handleId": self._id, **params}, timeout)


class _Raw(io.RawIOBase):
    """What both directions have in common."""

    def __init__(self, handle: BlockHandle) -> None:
        super().__init__()
        self._handle = handle
        self._position = 0
        when_dropped(self, handle.abandon)

    def __del__(self) -> None:
        """Nothing: see the module."""

    def discard(self) -> None:
        """Close it without an effect on the file."""
        self._handle.abandon()
        super().close()


class _RawReader(_Raw):
    """Bytes from any place of a file. The end may move while it is read."""

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read at most one block into ``buffer``; 0 at the end."""
        view = memoryview(buffer).cast("B")
        chunk = self._read_block(min(len(view), BLOCK_BYTES)).chunk
        view[: len(chunk)] = chunk
        return len(chunk)

    def readall(self) -> bytes:
        """Read until the end."""
        blocks = [self._read_block(BLOCK_BYTES)]
        while not blocks[-1].eof:
            blocks.append(self._read_block(BLOCK_BYTES))
        return b"".join(block.chunk for block in blocks)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to another place, counted from the start, from here or from the end of what is at the path now."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position}
        position = offset + (self._handle.size() if whence == os.SEEK_END else start[whence])
        if position < 0:
            raise ValueError(f"negative seek position {position}")
        self._position = position
        return position

    def close(self) -> None:
        """Close it. Twice is harmless."""
        if not self.closed:
            self.discard()

    def _read_block(self, length: int) -> ReadBlockResult:
        block = self._handle.read(self._position, length)
        self._position += len(block.chunk)
        return block


class _RawWriter(_Raw):
    """Bytes for a file, from its start to its end."""

    _broken = False

    def writable(self) -> bool:
        """Yes."""
        return True

    def write(self, data: ReadableBuffer) -> int:
        """Write at most one block; return its length."""
        block = bytes(memoryview(data).cast("B")[:BLOCK_BYTES])
        try:
            self._handle.write(self._position, block)
        except BaseException:
            self._broken = True
            raise
        self._position += len(block)
        return len(block)

    def close(self) -> None:
        """Let what was written be the file, unless a part of it is missing. Twice is harmless."""
        if self.closed:
            return
        try:
            self._handle.close(commit=not self._broken)
        finally:
            super().close()
        if self._broken:
            raise OSError("the file stays as it was: not everything could be written")


class _Reader(io.BufferedReader):
    """Bytes from a file."""

    def __del__(self) -> None:
        """Nothing: see the module."""


class _Writer(io.BufferedWriter):
    """Bytes for a file, which are discarded when an error leaves the ``with`` block."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if kind:
            cast(_Raw, self.raw).discard()
        self.close()

    def __del__(self) -> None:
        """Nothing: see the module."""


class _Text(io.TextIOWrapper):
    """Text in front of one of these."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if kind:
            cast(_Reader | _Writer, self.buffer).__exit__(kind, error, tb)
        self.close()

    def __del__(self) -> None:
        """Nothing: see the module."""
