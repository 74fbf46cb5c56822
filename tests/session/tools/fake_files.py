"""Files that only this memory holds, and that remember which directories were read."""

from __future__ import annotations

import errno
import os
from typing import Any

from execsrv.session.environment import ExecutorFileSystem, FileMetadata, ReadDirectoryEntry

#: Instead of the bytes of a file, or of the dict of a directory.
LINK = "a link"
DEVICE = "a device"


class FakeFiles(ExecutorFileSystem):
    """A tree of dicts (directories), bytes (files), LINK, DEVICE, and errors that reading a directory raises."""

    def __init__(self, tree: dict[str, Any]) -> None:
        self._tree = tree
        self.read_directories: list[str] = []

    def read_file(self, path: str) -> bytes:
        """See ExecutorFileSystem."""
        content = self._find(path)
        if not isinstance(content, bytes):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return content

    def get_metadata(self, path: str) -> FileMetadata:
        """See ExecutorFileSystem."""
        found = self._find(path)
        return FileMetadata(isinstance(found, (dict, OSError)), isinstance(found, bytes), 0, 0)

    def read_directory(self, path: str) -> list[ReadDirectoryEntry]:
        """See ExecutorFileSystem."""
        self.read_directories.append(path)
        directory = self._find(path)
        if isinstance(directory, OSError):
            raise directory
        return [
            ReadDirectoryEntry(name, isinstance(item, (dict, OSError)), isinstance(item, bytes), item is LINK)
            for name, item in directory.items()
        ]

    def _find(self, path: str) -> Any:
        if "\0" in path:
            raise ValueError("embedded null byte")
        found: Any = self._tree
        for name in filter(None, path.split("/")):
            if not isinstance(found, dict) or name not in found:
                raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            found = found[name]
        return found
