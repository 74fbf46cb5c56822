"""What the tests of sessions share: every kind of backend, each with a workspace of its own.

The backends: ``local`` (this program), ``in_process``, ``spawned`` and ``websocket`` (servers). A server's workspace
lies under another root than the session has for it, where nothing is; so a path that is not mapped leads nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from workspaces import Workspace

from execsrv import ExecServerClient, spawn_local_exec_server
from execsrv.session.backends import SessionExecutionBackends, session_execution_backends
from execsrv.session.config import SessionConfig
from execsrv.session.environment import Environment, ExecutorFileSystem
from execsrv.session.exec_server_file_system import ExecServerFileSystem
from execsrv.session.local_file_system import LocalFileSystem
from execsrv.session.path_mapper import PathMapper

SERVERS = ["in_process", "spawned", "websocket"]
BACKENDS = ["local", *SERVERS]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """Each kind of backend in turn."""
    return str(request.param)


@pytest.fixture
def workspace(backend: str, tmp_path: Path) -> Workspace:
    """An empty directory to work in."""
    place = tmp_path / "workspace"
    place.mkdir()
    return Workspace(place if backend == "local" else tmp_path / "session" / "root", place)


@pytest.fixture(scope="session")
def in_process_client() -> Iterator[ExecServerClient]:
    """A client that is its own server, for the whole run."""
    with ExecServerClient.connect_in_process() as client:
        yield client


@pytest.fixture(scope="session")
def spawned_client() -> Iterator[ExecServerClient]:
    """A client of a server that it started, for the whole run."""
    with spawn_local_exec_server() as client:
        yield client


@pytest.fixture(scope="session")
def websocket_client(server_url: str) -> Iterator[ExecServerClient]:
    """A client of the websocket server, for the whole run."""
    with ExecServerClient.connect_websocket(server_url) as client:
        yield client


@pytest.fixture
def client(backend: str, request: pytest.FixtureRequest) -> ExecServerClient | None:
    """A connection to the backend's server, shared by the whole run; None for the local one."""
    if backend == "local":
        return None
    found: ExecServerClient = request.getfixturevalue(f"{backend}_client")
    return found


@pytest.fixture
def path_mapper(backend: str, workspace: Workspace) -> PathMapper | None:
    """What leads a server's client into the workspace; None for the local backend."""
    return None if backend == "local" else PathMapper(str(workspace.root), str(workspace.place))


@pytest.fixture
def file_system(client: ExecServerClient | None, path_mapper: PathMapper | None) -> ExecutorFileSystem:
    """The backend's files."""
    return ExecServerFileSystem(client, path_mapper) if client else LocalFileSystem()


@pytest.fixture
def environment(file_system: ExecutorFileSystem) -> Environment:
    """The backend's environment."""
    return Environment(file_system)


@pytest.fixture
def session_config(backend: str, workspace: Workspace, request: pytest.FixtureRequest) -> SessionConfig:
    """Settings that choose the backend and lead into the workspace."""
    if backend == "local":
        return SessionConfig()
    return SessionConfig(
        experimental_unified_exec_use_exec_server=True,
        experimental_unified_exec_spawn_local_exec_server=backend == "spawned",
        experimental_unified_exec_exec_server_websocket_url=(
            request.getfixturevalue("server_url") if backend == "websocket" else None
        ),
        experimental_unified_exec_exec_server_workspace_root=str(workspace.place),
        experimental_unified_exec_exec_server_local_root=str(workspace.root),
    )


@pytest.fixture
def backends(session_config: SessionConfig) -> Iterator[SessionExecutionBackends]:
    """The backend as a session opens it: a server that the session starts is new."""
    with session_execution_backends(session_config) as backends:
        yield backends
