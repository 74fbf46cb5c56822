"""The system's errors become ours: code, kind, errno and words."""

from __future__ import annotations

import errno
import os

import pytest

from execsrv.errors import InternalError, InvalidRequest, NotFound
from execsrv.server.files.os_errors import os_errors_told_as


@pytest.mark.parametrize(
    "number, kind",
    [
        (errno.EACCES, "permissionDenied"),
        (errno.EPERM, "permissionDenied"),
        (errno.EEXIST, "alreadyExists"),
        (errno.ENOTDIR, "notADirectory"),
        (errno.EISDIR, "isADirectory"),
        (errno.ENOTEMPTY, "directoryNotEmpty"),
        (errno.ENOSPC, "ioError"),
        (errno.ELOOP, "ioError"),
    ],
)
def test_errno_decides_the_kind(number: int, kind: str) -> None:
    """All but ENOENT are internal errors that say what failed in the system's words."""
    with pytest.raises(InternalError) as caught, os_errors_told_as("cannot read /a"):
        raise OSError(number, os.strerror(number))
    assert (caught.value.kind, caught.value.data) == (kind, {"errno": number})
    assert caught.value.message == f"cannot read /a: {os.strerror(number)}"


def test_enoent_is_not_found() -> None:
    """A missing file has a code of its own."""
    with pytest.raises(NotFound) as caught, os_errors_told_as("cannot read /a"):
        os.stat("/no/such/file")
    assert (caught.value.code, caught.value.kind) == (-32004, "notFound")
    assert caught.value.data == {"errno": errno.ENOENT}
    assert caught.value.message == "cannot read /a: No such file or directory"


def test_our_own_errors_pass() -> None:
    """What is an error of the protocol already stays as it is."""
    fault = InvalidRequest("no", kind="invalidInput")
    with pytest.raises(InvalidRequest) as caught, os_errors_told_as("cannot read /a"):
        raise fault
    assert caught.value is fault
