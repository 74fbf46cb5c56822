"""Lists a directory."""

from __future__ import annotations

import os
from operator import itemgetter

from execsrv.errors import InvalidRequest
from execsrv.protocol.files import DirectoryEntry
from execsrv.server.files.places import reach

#: Least bytes that an entry takes in an answer, besides its name.
ENTRY_BYTES = len('{"fileName":"","isDirectory":false,"isFile":false,"isSymlink":true},')


def read_directory(path: bytes, max_bytes: int) -> list[DirectoryEntry]:
    """What is in the directory at ``path``, in the order of the names' bytes; links in it are not followed.

    Raises InvalidRequest (``tooLarge``) as soon as the answer must be longer than ``max_bytes``, else OSError.
    """
    entries: list[tuple[bytes, DirectoryEntry]] = []
    size = 0
    with reach(path) as place, place.opened(os.O_RDONLY | os.O_DIRECTORY) as fd, os.scandir(fd) as found:
        for item in found:
            entries.append(_entry(item))
            size += len(entries[-1][0]) + ENTRY_BYTES
            if size > max_bytes:
                message = f"directory is too large for one answer: limit is {max_bytes} bytes"
                raise InvalidRequest(message, kind="tooLarge")
    entries.sort(key=itemgetter(0))
    return [entry for _, entry in entries]


def _entry(item: os.DirEntry[str]) -> tuple[bytes, DirectoryEntry]:
    """An entry and the bytes of its name."""
    is_file = item.is_file(follow_symlinks=False)
    is_directory = not is_file and item.is_dir(follow_symlinks=False)
    is_symlink = not (is_file or is_directory) and item.is_symlink()
    if item.name.isascii():  # most are, and fsencode takes twice as long
        return item.name.encode(), DirectoryEntry(item.name, is_directory, is_file, is_symlink)
    name = os.fsencode(item.name)
    text = name.decode(errors="replace")
    return name, DirectoryEntry(text, is_directory, is_file, is_symlink, None if text.encode() == name else name)
