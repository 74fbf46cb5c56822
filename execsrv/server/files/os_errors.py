"""Turns what the operating system refuses into the protocol's errors: the one place where errno gets a kind."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from execsrv.errors import InternalError, NotFound, RpcError

_KINDS = {
    errno.EACCES: "permissionDenied",
    errno.EPERM: "permissionDenied",
    errno.EEXIST: "alreadyExists",
    errno.ENOTDIR: "notADirectory",
    errno.EISDIR: "isADirectory",
    errno.ENOTEMPTY: "directoryNotEmpty",
}


@contextmanager
def os_errors_told_as(failure: str) -> Iterator[None]:
    """Raise an OSError of the block as NotFound or InternalError, worded ``FAILURE: the system's words``."""
    try:
        yield
    except OSError as error:
        raise _rpc_error(failure, error) from error


def _rpc_error(failure: str, error: OSError) -> RpcError:
    message = f"{failure}: {error.strerror}"
    if error.errno == errno.ENOENT:
        return NotFound(message, errno=error.errno)
    return InternalError(message, kind=_KINDS.get(error.errno or 0, "ioError"), errno=error.errno)
