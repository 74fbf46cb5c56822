"""Tests of execsrv.client.file_errors."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from execsrv.client.errors import ServerError
from execsrv.client.file_errors import os_errors


def refusal(data: Any) -> ServerError:
    """What a server answers."""
    return ServerError(-32603, "refused", data.get("kind", "") if data else "", data)


@pytest.mark.parametrize(
    ("data", "error", "number"),
    [
        ({"kind": "notFound"}, FileNotFoundError, errno.ENOENT),
        ({"kind": "permissionDenied", "errno": 1}, PermissionError, errno.EACCES),
        ({"kind": "alreadyExists"}, FileExistsError, errno.EEXIST),
        ({"kind": "notADirectory"}, NotADirectoryError, errno.ENOTDIR),
        ({"kind": "isADirectory"}, IsADirectoryError, errno.EISDIR),
        ({"kind": "directoryNotEmpty", "errno": 39}, OSError, errno.ENOTEMPTY),
        ({"kind": "ioError", "errno": errno.ELOOP}, OSError, errno.ELOOP),
    ],
)
def test_kinds_become_errors_of_the_system(data: dict[str, Any], error: type[OSError], number: int) -> None:
    """The kind decides; a number only where there is none."""
    with pytest.raises(error, match="refused") as caught, os_errors("/x"):
        raise refusal(data)
    assert (caught.value.errno, caught.value.filename) == (number, "/x")
    assert isinstance(caught.value.__cause__, ServerError)


@pytest.mark.parametrize("data", [{"kind": "tooLarge"}, {"kind": "invalidInput"}, None])
def test_other_errors_stay_what_they_are(data: dict[str, Any] | None) -> None:
    """A refusal that no system call makes is a ServerError."""
    with pytest.raises(ServerError), os_errors("/x"):
        raise refusal(data)


def test_error_may_name_two_paths() -> None:
    """As that of a copy does."""
    with pytest.raises(FileNotFoundError) as caught, os_errors("/x", b"/y"):
        raise refusal({"kind": "notFound"})
    assert (caught.value.filename, caught.value.filename2) == ("/x", b"/y")
