"""Faults of files as words for the model."""

from __future__ import annotations

import errno

import pytest

from execsrv.client.errors import ClosedError
from execsrv.session.tools.result import ToolFault, file_faults


@pytest.mark.parametrize(
    "error, words",
    [
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "/x"), "No such file or directory"),
        (OSError(errno.EIO, "Input/output error"), "Input/output error"),
        (TimeoutError("no answer within 5 s"), "no answer within 5 s"),
        (ValueError("embedded null byte"), "embedded null byte"),
    ],
)
def test_a_fault_says_what_failed_and_why(error: Exception, words: str) -> None:
    """Without a number and without the path, which is the model's own."""
    with pytest.raises(ToolFault) as caught, file_faults("failed to read file"):
        raise error
    assert str(caught.value) == f"failed to read file: {words}"
    assert caught.value.__cause__ is error


def test_a_lost_connection_is_no_fault_of_files() -> None:
    """It is for the agent, not for the model."""
    with pytest.raises(ClosedError), file_faults("failed to read file"):
        raise ClosedError("gone")
