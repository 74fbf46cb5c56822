"""Opens what a session works with, as its settings choose: the files and commands of one place."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from execsrv.client.client import ExecServerClient
from execsrv.client.local import spawn_local_exec_server
from execsrv.session.config import SessionConfig
from execsrv.session.environment import Environment
from execsrv.session.exec_server_file_system import ExecServerFileSystem
from execsrv.session.local_file_system import LocalFileSystem
from execsrv.session.path_mapper import PathMapper
from execsrv.session.server_program import server_command
from execsrv.session.unified_exec.local_process import LocalSessionFactory
from execsrv.session.unified_exec.request import UnifiedExecSessionFactory
from execsrv.session.unified_exec.server_process import ExecServerSessionFactory


@dataclass(frozen=True)
class SessionExecutionBackends:
    """What a session works with. It is a context manager.

    Leaving it ends the connection and what was started over it, and the server too if it is the session's own. A
    manager of commands is to be closed before.

    environment: the files. unified_exec_session_factory: starts commands, in the same place.
    """

    environment: Environment
    unified_exec_session_factory: UnifiedExecSessionFactory
    _owned: ExitStack

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """End what belongs to the session. Twice is harmless."""
        self._owned.close()


def session_execution_backends(
    config: SessionConfig, local_exec_server_command: Sequence[str] | None = None
) -> SessionExecutionBackends:
    """Open the backends that the settings choose.

    Without ``experimental_unified_exec_use_exec_server`` this program does all. With it a server does: that of the
    URL if there is one, else one that is started for the session if that is wanted, else this program is its own.
    With a workspace root the paths in the local root lead there, whichever server it is.

    local_exec_server_command: the server to start; else see ``server_command``.

    Raises ExecServerError when there is no connection, for instance ConnectError or SpawnError; ValueError for a
    root that is not absolute.
    """
    with ExitStack() as owned:
        local = LocalSessionFactory()
        owned.callback(local.close)
        if not config.experimental_unified_exec_use_exec_server:
            return SessionExecutionBackends(Environment(LocalFileSystem()), local, owned.pop_all())
        path_mapper = _path_mapper(config)
        client = owned.enter_context(_connect(config, local_exec_server_command))
        environment = Environment(ExecServerFileSystem(client, path_mapper))
        factory = ExecServerSessionFactory(client, path_mapper, local)
        return SessionExecutionBackends(environment, factory, owned.pop_all())


def _connect(config: SessionConfig, command: Sequence[str] | None) -> ExecServerClient:
    url = config.experimental_unified_exec_exec_server_websocket_url
    if url:
        return ExecServerClient.connect_websocket(url)
    if config.experimental_unified_exec_spawn_local_exec_server:
        return spawn_local_exec_server(command or server_command())
    return ExecServerClient.connect_in_process()


def _path_mapper(config: SessionConfig) -> PathMapper | None:
    remote_root = config.experimental_unified_exec_exec_server_workspace_root
    if remote_root is None:
        return None
    return PathMapper(config.experimental_unified_exec_exec_server_local_root or os.getcwd(), remote_root)
