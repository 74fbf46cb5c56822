"""Tests of execsrv.session.exec_server_file_system: what can go wrong between a session and a server."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from execsrv import ExecServerClient, ExecServerError, FileSystem, ServerError, spawn_local_exec_server
from execsrv.session.exec_server_file_system import ExecServerFileSystem
from execsrv.session.path_mapper import PathMapper

FOUR_MIB = 4 * 1024 * 1024


def failing_with(error: ExecServerError) -> ExecServerFileSystem:
    """The files of a server that answers every call with ``error``."""

    def call(method: str, params: dict[str, Any], timeout: float | None = None) -> dict[str, Any]:
        raise error

    client = SimpleNamespace(fs=FileSystem(SimpleNamespace(call=call)))
    return ExecServerFileSystem(cast(ExecServerClient, client), PathMapper("/local", "/remote"))


@pytest.mark.parametrize(
    "error, number",
    [
        (ServerError(-32600, "no", "invalidInput"), errno.EINVAL),
        (ServerError(-32600, "no", "tooLarge"), errno.EFBIG),
        (ServerError(-32600, "no", "unknownMethod"), errno.ENOSYS),
        (ServerError(-32603, "no", "internal"), errno.EIO),
        (ServerError(-32603, "no"), errno.EIO),
        (ServerError(-32603, "no", "ioError", {"errno": errno.ENOSPC}), errno.ENOSPC),
        (ServerError(-32603, "no", "permissionDenied"), errno.EACCES),
        (ExecServerError("no"), errno.EIO),
    ],
)
def test_what_a_server_says_is_an_os_error(error: ExecServerError, number: int) -> None:
    """With the session's path, and the server's words as its cause."""
    with pytest.raises(OSError) as caught:
        failing_with(error).read_file("/local/file")
    assert (caught.value.errno, caught.value.filename) == (number, "/local/file")
    cause: BaseException | None = caught.value
    while cause and cause is not error:
        cause = cause.__cause__
    assert cause is error


def test_a_lost_connection_is_an_os_error(tmp_path: Path) -> None:
    """So whoever takes what a system refuses takes this too."""
    with spawn_local_exec_server() as client:
        file_system = ExecServerFileSystem(client)
        (tmp_path / "file").write_bytes(b"x")
        assert file_system.read_file(str(tmp_path / "file")) == b"x"
    with pytest.raises(ConnectionResetError) as caught:
        file_system.read_file(str(tmp_path / "file"))
    assert caught.value.filename == str(tmp_path / "file")


def test_without_a_mapper_paths_are_the_servers(tmp_path: Path, spawned_client: ExecServerClient) -> None:
    """They reach it as they are."""
    file_system = ExecServerFileSystem(spawned_client)
    file_system.write_file(str(tmp_path / "file"), b"x")
    assert (tmp_path / "file").read_bytes() == b"x"


def test_paths_outside_of_the_root_are_the_servers(tmp_path: Path, spawned_client: ExecServerClient) -> None:
    """Also as one of the two of a copy."""
    (tmp_path / "workspace").mkdir()
    (tmp_path / "outside").write_bytes(b"x")
    file_system = ExecServerFileSystem(spawned_client, PathMapper("/session", str(tmp_path / "workspace")))
    file_system.copy(str(tmp_path / "outside"), "/session/inside")
    assert (tmp_path / "workspace" / "inside").read_bytes() == b"x"
    with pytest.raises(FileNotFoundError) as caught:
        file_system.copy("/session/missing", str(tmp_path / "new"))
    assert (caught.value.filename, caught.value.filename2) == ("/session/missing", str(tmp_path / "new"))


def test_the_time_of_creation_is_told(tmp_path: Path, spawned_client: ExecServerClient) -> None:
    """As the server knows it."""
    (tmp_path / "file").touch()
    metadata = ExecServerFileSystem(spawned_client).get_metadata(str(tmp_path / "file"))
    assert metadata.created_at_ms == spawned_client.fs.stat(tmp_path / "file").created_at_ms
