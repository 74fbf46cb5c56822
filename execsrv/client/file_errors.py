"""The server's faults with files as the errors that ``os`` raises."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

from execsrv.client.errors import ServerError
from execsrv.client.paths import AnyPath

#: The errors of the operating system behind kinds of server errors. OSError picks its subclass by them.
_ERRNO = {
    "notFound": errno.ENOENT,
    "permissionDenied": errno.EACCES,
    "alreadyExists": errno.EEXIST,
    "notADirectory": errno.ENOTDIR,
    "isADirectory": errno.EISDIR,
    "directoryNotEmpty": errno.ENOTEMPTY,
}


@contextlib.contextmanager
def os_errors(path: AnyPath, path2: AnyPath | None = None) -> Iterator[None]:
    """Raise the OSError that belongs to a ServerError, with the paths."""
    try:
        yield
    except ServerError as error:
        code = _errno_of(error)
        if code is None:
            raise
        filenames = (path,) if path2 is None else (path, None, path2)
        raise OSError(code, error.message, *filenames) from error


def _errno_of(error: ServerError) -> int | None:
    """The number on this system, which for what has no kind of its own is taken to be the server's."""
    code = error.data.get("errno") if isinstance(error.data, dict) else None
    return _ERRNO.get(error.kind) or (code if isinstance(code, int) else None)
