"""The file methods, ``fs/readFile`` to ``fs/close``.

Each checks its paths, does its work and turns what goes wrong into the protocol's errors. All of them block, so call
them on threads; but those that end in ``at_once``.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import closing, suppress

from execsrv.config import ExecServerConfig
from execsrv.errors import InvalidParams, InvalidRequest, NotFound
from execsrv.protocol.common import Empty
from execsrv.protocol.files import (
    CloseParams,
    CopyParams,
    CreateDirectoryParams,
    Metadata,
    OpenParams,
    OpenResult,
    PathParams,
    ReadBlockParams,
    ReadBlockResult,
    ReadDirectoryResult,
    ReadFileResult,
    RemoveParams,
    WriteBlockParams,
    WriteFileParams,
)
from execsrv.server.files.cached import cached_content, cached_status
from execsrv.server.files.copy_tree import copy
from execsrv.server.files.handles import BlockReader, BlockWriter, Handles
from execsrv.server.files.os_errors import os_errors_told_as
from execsrv.server.files.places import make_directories, reach
from execsrv.server.files.read_directory import read_directory
from execsrv.server.files.read_file import ReadLimits, read_file
from execsrv.server.files.remove_tree import remove
from execsrv.server.files.statx import Status, status_of
from execsrv.server.files.write_file import bytes_content, write_through
from execsrv.server.paths import native_path, shown
from execsrv.wire import decode_base64

#: Latest time that is told, in milliseconds: the largest integer that every JSON reader takes (RFC 8259 section 6).
MAX_TIME_MS = 2**53 - 1


class FileSystem:
    """The server's files, and the ``handles`` that one connection has open.

    Every method raises InvalidParams for a path that is none, NotFound for one that is not there, InvalidRequest
    for wrong use, and InternalError for whatever else the system refuses.
    """

    def __init__(self, config: ExecServerConfig) -> None:
        self._limits = ReadLimits(config.max_read_file_bytes, config.max_message_bytes)
        self.handles = Handles()
        self._ended = False

    def read_file(self, params: PathParams) -> ReadFileResult:
        """The content of a regular file that is small enough for the limits and for one answer."""
        path = native_path(params.path, "path")
        with os_errors_told_as(f"cannot read {shown(path)}"):
            return ReadFileResult(read_file(path, self._limits))

    def write_file(self, params: WriteFileParams) -> Empty:
        """Give a file its whole content, or leave it as it is; a link is written through."""
        path = native_path(params.path, "path")
        data = _decoded(params.data_base64, "fs/writeFile requires valid base64 dataBase64")
        with os_errors_told_as(f"cannot write {shown(path)}"):
            write_through(path, bytes_content(data))
        return Empty()

    def create_directory(self, params: CreateDirectoryParams) -> Empty:
        """Make a directory; ``recursive`` also makes those above it and takes one that is there."""
        path = native_path(params.path, "path")
        with os_errors_told_as(f"cannot create directory {shown(path)}"):
            if params.recursive:
                make_directories(path)
            else:
                with reach(path) as place:
                    os.mkdir(place.path, dir_fd=place.directory)
        return Empty()

    def read_file_at_once(self, params: PathParams) -> ReadFileResult | None:
        """As ``read_file``, if all of it is in memory and it is short; None else, also for every fault."""
        with suppress(InvalidParams):
            content = cached_content(native_path(params.path, "path"), self._limits.at_once_bytes)
            return None if content is None else ReadFileResult(content)
        return None

    def get_metadata(self, params: PathParams) -> Metadata:
        """Kind, size and times of what a path leads to; a link that leads nowhere is not found."""
        path = native_path(params.path, "path")
        with os_errors_told_as(f"cannot get metadata of {shown(path)}"), reach(path) as place:
            found, itself = place.stat(), place.stat(follow=False)
            status = status_of(place.directory, place.path)
        born_ns = status.born_ns if status else None
        is_symlink = stat.S_ISLNK(itself.st_mode)
        return _metadata(Status(found.st_mode, found.st_size, born_ns, found.st_mtime_ns), is_symlink)

    def get_metadata_at_once(self, params: PathParams) -> Metadata | None:
        """As ``get_metadata``, if it is in memory and no link; None else, also for every fault."""
        with suppress(InvalidParams):
            status = cached_status(native_path(params.path, "path"))
            return None if status is None else _metadata(status, is_symlink=False)
        return None

    def read_directory(self, params: PathParams) -> ReadDirectoryResult:
        """The entries of a directory, in the order of their names' bytes."""
        path = native_path(params.path, "path")
        with os_errors_told_as(f"cannot read directory {shown(path)}"):
            return ReadDirectoryResult(read_directory(path, self._limits.message_bytes))

    def remove(self, params: RemoveParams) -> Empty:
        """Remove a file, a link, or a directory; with ``force`` a missing path is no fault."""
        path = native_path(params.path, "path")
        try:
            with os_errors_told_as(f"cannot remove {shown(path)}"):
                remove(path, params.recursive)
        except NotFound:
            if not params.force:
                raise
        return Empty()

    def copy(self, params: CopyParams) -> Empty:
        """Copy a file, a link, or with ``recursive`` a directory."""
        source = native_path(params.source_path, "sourcePath")
        destination = native_path(params.destination_path, "destinationPath")
        with os_errors_told_as(f"cannot copy {shown(source)} to {shown(destination)}"):
            copy(source, destination, params.recursive, self._check_end)
        return Empty()

    def open(self, params: OpenParams) -> OpenResult:
        """Open a regular file to read it in blocks, or a draft that may take a file's place when it is closed."""
        self.handles.check_free(params.handle_id)
        path = native_path(params.path, "path")
        with os_errors_told_as(f"cannot open {shown(path)}"):
            handle = BlockReader(path) if params.mode == "read" else BlockWriter(path)
        self.handles.add(params.handle_id, handle)
        return OpenResult(params.handle_id)

    def read_block(self, params: ReadBlockParams) -> ReadBlockResult:
        """What a file holds from an offset on, and whether it ends there."""
        with self.handles.taken(params.handle_id, BlockReader) as reader:
            with os_errors_told_as(f"cannot read {shown(reader.path)}"):
                data = reader.read(params.offset, params.len + 1)  # one more shows whether it ends
        return ReadBlockResult(data[: params.len], eof=len(data) <= params.len)

    def write_block(self, params: WriteBlockParams) -> Empty:
        """Write bytes into a draft, anywhere."""
        with self.handles.taken(params.handle_id, BlockWriter) as writer:
            data = _decoded(params.chunk, "fs/writeBlock requires valid base64 chunk")
            with os_errors_told_as(f"cannot write {shown(writer.path)}"):
                writer.write(params.offset, data)
        return Empty()

    def close(self, params: CloseParams) -> Empty:
        """Close a handle; with ``commit`` a draft takes the file's place first. Its id is free, come what may."""
        handle = self.handles.remove(params.handle_id)
        with os_errors_told_as(f"cannot write {shown(handle.path)}"), closing(handle):
            if params.commit and isinstance(handle, BlockWriter):
                handle.commit()
        return Empty()

    def end(self) -> bool:
        """Break off a copy, and keep nothing open from now on; True when handles are left to be closed."""
        self._ended = True
        return self.handles.end()

    def _check_end(self) -> None:
        if self._ended:
            raise OSError(errno.ECANCELED, os.strerror(errno.ECANCELED))


def _decoded(text: str, refusal: str) -> bytes:
    try:
        return decode_base64(text)
    except ValueError as error:
        raise InvalidRequest(f"{refusal}: {error}", kind="invalidInput") from None


def _metadata(status: Status, is_symlink: bool) -> Metadata:
    return Metadata(
        is_directory=stat.S_ISDIR(status.mode),
        is_file=stat.S_ISREG(status.mode),
        is_symlink=is_symlink,
        size=status.size,
        created_at_ms=_milliseconds(status.born_ns),
        modified_at_ms=_milliseconds(status.modified_ns),
    )


def _milliseconds(nanoseconds: int | None) -> int:
    """Milliseconds since the epoch; 0 for a time that is unknown, before the epoch or beyond telling."""
    time = (nanoseconds or 0) // 1_000_000
    return time if 0 <= time <= MAX_TIME_MS else 0
