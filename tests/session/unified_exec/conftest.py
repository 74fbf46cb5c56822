"""Managers of commands on each kind of backend."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from workspaces import Workspace

from execsrv import ExecServerClient
from execsrv.session.path_mapper import PathMapper
from execsrv.session.unified_exec.local_process import LocalSessionFactory
from execsrv.session.unified_exec.manager import UnifiedExecManager
from execsrv.session.unified_exec.request import UnifiedExecSessionFactory
from execsrv.session.unified_exec.server_process import ExecServerSessionFactory


@pytest.fixture(params=["local", "in_process", "spawned"])
def backend(request: pytest.FixtureRequest) -> str:
    """Each kind of backend in turn; a websocket makes no difference to commands."""
    return str(request.param)


@pytest.fixture
def local_factory() -> Iterator[LocalSessionFactory]:
    """What starts commands here."""
    factory = LocalSessionFactory()
    yield factory
    factory.close()


@pytest.fixture
def factory(
    client: ExecServerClient | None, path_mapper: PathMapper | None, local_factory: LocalSessionFactory
) -> UnifiedExecSessionFactory:
    """What starts commands on the backend."""
    return ExecServerSessionFactory(client, path_mapper, local_factory) if client else local_factory


@pytest.fixture
def manager(factory: UnifiedExecSessionFactory, workspace: Workspace) -> Iterator[UnifiedExecManager]:
    """A manager that works in the workspace."""
    with UnifiedExecManager(factory, str(workspace.root)) as manager:
        yield manager
